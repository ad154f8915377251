// MLX: a bit stream of codes per row in 32-bit words, and scales; affine codes have biases, the modes mxfp4,
// mxfp8 and nvfp4 scales of one byte.
#include <algorithm>
#include <span>

#include "checkpoint/affine.h"
#include "checkpoint/names.h"
#include "checkpoint/quantized/float4.h"
#include "checkpoint/quantized/layouts.h"
#include "checkpoint/store.h"

namespace anabranch {

namespace {

constexpr std::string_view kParts[] = {".scales", ".biases"};

bool matches(const QuantizedModule& m) {
  return m.main().dtype == "U32" && m.find(".scales");
}

Result<MlxFormat> format_of(const QuantizedModule& m, const QuantizationContext& context) {
  const auto fail = [&](const std::string& why) {
    return m.invalid("it is quantised as MLX does, but {} {}", context.config_path, why);
  };
  if (!context.config) return fail("has no \"quantization\"");
  if (context.config->method != "mlx") return fail("states another method: " + context.config->method);
  const auto& overrides = context.config->overrides;
  const std::string_view module = m.stem();
  auto found = overrides.find(module);
  if (found == overrides.end())
    if (const auto folded = fold_name(module)) found = overrides.find(*folded);
  if (found == overrides.end() && module.starts_with("mtp."))  // the file's own names lack "mtp."
    found = overrides.find(module.substr(4));
  if (found == overrides.end()) return context.config->defaults;
  if (!found->second) return fail("says that it is not");
  return *found->second;
}

std::span<const int64_t> leading(const std::vector<int64_t>& shape) {
  return std::span(shape).first(shape.size() - 1);
}

// weight [..., cols * bits / 32] of U32, scales and biases [..., cols / group]
Result<QuantizedMatrix> read_affine(const QuantizedModule& m, const AffineFormat& format,
                                    std::shared_ptr<const void> keep) {
  const auto *w = &m.main(), *s = m.find(".scales"), *b = m.find(".biases");
  if (!b) return m.error(ErrorKind::unsupported, "it has scales but no biases, unlike affine quantisation");
  const auto scale_kind = dense_kind(s->dtype);
  if (!scale_kind) return m.invalid("scales of type {}", s->dtype);
  if (b->dtype != s->dtype) return m.invalid("scales of type {} but biases of type {}", s->dtype, b->dtype);
  if (s->shape != b->shape || w->shape.size() < 2 || s->shape.size() != w->shape.size() ||
      !std::ranges::equal(leading(w->shape), leading(s->shape)))
    return m.invalid("codes {}, scales {} and biases {} do not go together", shape_text(w->shape),
                     shape_text(s->shape), shape_text(b->shape));
  const int64_t cols = s->shape.back() * format.group;
  if (cols > INT32_MAX || cols == 0 || w->shape.back() * 32 != cols * format.bits)
    return m.invalid("codes {} and scales {} are not of the {} bits in groups of {} that config.json states",
                     shape_text(w->shape), shape_text(s->shape), format.bits, format.group);
  QuantizedMatrix out{fmt::format("affine-{}/{}", format.bits, format.group), w->shape, {}};
  out.shape.back() = cols;
  const AffineTensor tensor{rows_and_cols(w->shape).first,
                            cols,
                            format.bits,
                            format.group,
                            *scale_kind,
                            w->data.data(),
                            s->data.data(),
                            b->data.data()};
  out.source = affine_source(tensor, std::move(keep));
  return out;
}

Result<QuantizedMatrix> read(const QuantizedModule& m, const QuantizationContext& context,
                             std::shared_ptr<const void> keep) {
  TRY(const auto format, format_of(m, context));
  if (format.mode == MlxMode::affine) return read_affine(m, format, std::move(keep));
  const auto *w = &m.main(), *s = m.find(".scales");
  if (s->dtype != "U8" || w->shape.size() < 2 || s->shape.size() != w->shape.size() ||
      !std::ranges::equal(leading(w->shape), leading(s->shape)))
    return m.invalid("codes {} of {} and scales {} of {} do not go together", shape_text(w->shape), w->dtype,
                     shape_text(s->shape), s->dtype);
  const int64_t cols = s->shape.back() * format.group;
  if (cols == 0 || cols > INT32_MAX || w->shape.back() * 32 != cols * format.bits)
    return m.invalid("codes {} and scales {} are not of the {} bits in groups of {} that config.json states",
                     shape_text(w->shape), shape_text(s->shape), format.bits, format.group);
  QuantizedMatrix out{"mlx", w->shape, {}};
  out.shape.back() = cols;
  const int64_t rows = rows_and_cols(w->shape).first;
  const auto *codes = w->data.data(), *scales = s->data.data();
  switch (format.mode) {
    case MlxMode::mxfp8:
      out.type = "mxfp8";
      out.source = mxfp8_source(rows, cols, codes, scales, std::move(keep));
      break;
    case MlxMode::mxfp4:
      out.type = "mxfp4";
      out.source = float4_source({rows, cols, 32, ScaleType::e8m0, codes, scales}, std::move(keep));
      break;
    default:
      out.type = "nvfp4";
      out.source = float4_source({rows, cols, 16, ScaleType::e4m3, codes, scales}, std::move(keep));
  }
  return out;
}

}  // namespace

const QuantizedLayout kMlxLayout{".weight", kParts, matches, read};

}  // namespace anabranch
