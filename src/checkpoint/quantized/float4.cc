#include "checkpoint/quantized/float4.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/float8.h"
#include "checkpoint/dense.h"
#include "checkpoint/experts.h"
#include "checkpoint/quantized/grouped.h"
#include "checkpoint/quantized/layouts.h"
#include "checkpoint/store.h"

namespace anabranch {

void byte_scales_to_float(ScaleType type, const std::byte* data, int64_t count, float factor, float* out) {
  for (int64_t i = 0; i < count; i++) {
    const auto code = static_cast<uint8_t>(data[i]);
    out[i] = (type == ScaleType::e8m0 ? e8m0_to_float(code) : e4m3_to_float(code)) * factor;
  }
}

WeightSource float4_source(const Float4Tensor& t, std::shared_ptr<const void> keep) {
  CHECK(t.group > 0 && t.cols % t.group == 0 && t.cols % 2 == 0, "{} columns, groups of {}", t.cols, t.group);
  GroupedCodes out;
  out.format.rows = t.rows;
  out.format.cols = t.cols;
  out.format.kind = WeightKind::table;
  out.format.bits = 4;
  out.format.scale_type = t.scale_type;
  out.format.scale_factor = t.factor * 0.5f;
  out.format.symmetric = true;
  out.format.table = kFloat4Table;
  out.group = t.group;
  out.groups = t.cols / t.group;
  out.read_codes = [t, keep](int64_t first, int64_t count, uint8_t* codes) {
    const std::byte* from = t.codes + first * t.cols / 2;
    for (int64_t i = 0; i < count * t.cols / 2; i++) {
      codes[2 * i] = static_cast<uint8_t>(from[i]) & 15;
      codes[2 * i + 1] = static_cast<uint8_t>(from[i]) >> 4;
    }
  };
  out.read_scales = [t, keep, factor = out.format.scale_factor](int64_t first, int64_t count, float* scales,
                                                                float*) {
    const int64_t groups = t.cols / t.group;
    byte_scales_to_float(t.scale_type, t.scales + first * groups, count * groups, factor, scales);
  };
  return grouped_source(std::move(out));
}

WeightSource mxfp8_source(int64_t rows, int64_t cols, const std::byte* codes, const std::byte* scales,
                          std::shared_ptr<const void> keep) {
  CHECK(cols % 32 == 0, "{} columns", cols);
  WeightSource out;
  out.rows = rows;
  out.cols = cols;
  out.kind = WeightKind::fp8;
  out.bits = 8;
  out.group = 32;
  out.scale_type = ScaleType::e8m0;
  out.symmetric = true;
  out.read_codes = [cols, codes, scales, keep = std::move(keep)](int64_t first, int64_t count, uint8_t* to,
                                                                 float* s, float*) {
    std::memcpy(to, codes + first * cols, static_cast<size_t>(count * cols));
    byte_scales_to_float(ScaleType::e8m0, scales + first * cols / 32, count * cols / 32, 1, s);
  };
  return out;
}

namespace {

// ---- compressed-tensors: weight_packed [..., cols / 2] of U8, weight_scale [..., cols / group], and for
// NVFP4 weight_global_scale, which divides. ModelOpt: weight, weight_scale, weight_scale_2, which multiplies.

constexpr std::string_view kPackedParts[] = {".weight_scale", ".weight_global_scale"};
constexpr std::string_view kModelOptParts[] = {".weight_scale", ".weight_scale_2", ".pre_quant_scale"};

bool matches_packed(const QuantizedModule& m) {
  return m.main().dtype == "U8" && m.find(".weight_scale");
}

bool matches_model_opt(const QuantizedModule& m) {
  return m.main().dtype == "U8" && m.find(".weight_scale") && !m.find(".weight.absmax");
}

struct MatrixShape {
  int64_t rows, cols, experts;
};

// Codes [rows, cols / 2] or [experts, rows, cols / 2]; scales with the same dimensions, for groups of
// `group`.
Result<MatrixShape> check_shapes(const QuantizedModule& m, const SafetensorsTensor& scale, int64_t group) {
  const auto& w = m.main().shape;
  const auto& s = scale.shape;
  const bool alike = (w.size() == 2 || w.size() == 3) && s.size() == w.size() &&
                     std::equal(w.begin(), w.end() - 1, s.begin());
  const int64_t cols = w.empty() ? 0 : w.back() * 2;
  if (!alike || cols == 0 || cols > INT32_MAX || s.back() * group != cols)
    return m.invalid("codes {} and scales {} do not go together in groups of {}", shape_text(w),
                     shape_text(s), group);
  return MatrixShape{rows_and_cols(w).first, cols, w.size() == 3 ? w[0] : 1};
}

// The factor of a matrix, or of each expert.
Result<std::vector<float>> read_factors(const QuantizedModule& m, const SafetensorsTensor& tensor,
                                        int64_t experts) {
  const auto kind = dense_kind(tensor.dtype);
  const auto [rows, cols] = rows_and_cols(tensor.shape);
  if (!kind || (rows * cols != 1 && rows * cols != experts))
    return m.invalid("\"{}\" has type {} and shape {}; one number was expected", shown(tensor.name),
                     tensor.dtype, shape_text(tensor.shape));
  std::vector<float> out(static_cast<size_t>(rows * cols));
  dense_to_float(*kind, tensor.data.data(), rows * cols, out.data());
  return out;
}

Result<QuantizedMatrix> read_float4(const QuantizedModule& m, const std::vector<float>& factors,
                                    std::shared_ptr<const void> keep) {
  TRY(const auto* scale, m.need(".weight_scale"));
  const bool micro = scale->dtype == "U8" || scale->dtype == "F8_E8M0";
  if (!micro && scale->dtype != "F8_E4M3") return m.invalid("scales of type {}", scale->dtype);
  const int64_t group = micro ? 32 : 16;
  TRY(const auto shape, check_shapes(m, *scale, group));
  QuantizedMatrix out{micro ? "mxfp4" : "nvfp4", m.main().shape, {}};
  out.shape.back() = shape.cols;
  Float4Tensor t{shape.rows,           shape.cols,        group, micro ? ScaleType::e8m0 : ScaleType::e4m3,
                 m.main().data.data(), scale->data.data()};
  if (factors.size() <= 1) {
    t.factor = factors.empty() ? 1 : factors[0];
    out.source = float4_source(t, std::move(keep));
    return out;
  }
  std::vector<WeightSource> experts;
  t.rows = shape.rows / shape.experts;
  for (const float factor : factors) {
    t.factor = factor;
    experts.push_back(float4_source(t, keep));
    t.codes += t.rows * t.cols / 2;
    t.scales += t.rows * t.cols / group;
  }
  out.source = join_rows(std::move(experts));
  return out;
}

Result<QuantizedMatrix> read_packed(const QuantizedModule& m, const QuantizationContext&,
                                    std::shared_ptr<const void> keep) {
  std::vector<float> factors;
  if (const auto* global = m.find(".weight_global_scale")) {
    TRY(factors, read_factors(m, *global, m.main().shape.size() == 3 ? m.main().shape[0] : 1));
    for (float& f : factors) f = 1 / f;
  }
  return read_float4(m, factors, std::move(keep));
}

Result<QuantizedMatrix> read_model_opt(const QuantizedModule& m, const QuantizationContext&,
                                       std::shared_ptr<const void> keep) {
  if (m.find(".pre_quant_scale"))
    return m.error(
        ErrorKind::unsupported,
        "its inputs are scaled first (pre_quant_scale), which is not supported: use NVFP4 without AWQ");
  std::vector<float> factors;
  if (const auto* second = m.find(".weight_scale_2")) {
    TRY(factors, read_factors(m, *second, m.main().shape.size() == 3 ? m.main().shape[0] : 1));
  }
  return read_float4(m, factors, std::move(keep));
}

// ---- gpt-oss: NAME_blocks [experts, rows, cols / 32, 16] and NAME_scales [experts, rows, cols / 32], of U8.

constexpr std::string_view kBlocksParts[] = {"_scales"};

bool matches_blocks(const QuantizedModule& m) {
  return m.main().dtype == "U8" && m.find("_scales");
}

Result<QuantizedMatrix> read_blocks(const QuantizedModule& m, const QuantizationContext&,
                                    std::shared_ptr<const void> keep) {
  const auto& blocks = m.main().shape;
  const SafetensorsTensor& scales = *m.find("_scales");
  const bool fits = blocks.size() == 4 && scales.dtype == "U8" && blocks[3] == 16 &&
                    std::ranges::equal(std::span(blocks).first(3), scales.shape);
  const int64_t cols = fits ? blocks[2] * 32 : 0;
  if (cols == 0 || cols > INT32_MAX || blocks[0] == 0 || blocks[1] == 0)
    return m.invalid("blocks {} and scales {} of {} do not go together as MXFP4", shape_text(blocks),
                     shape_text(scales.shape), scales.dtype);
  const Float4Tensor tensor{blocks[0] * blocks[1], cols, 32, ScaleType::e8m0, m.main().data.data(),
                            scales.data.data()};
  return QuantizedMatrix{"mxfp4", {blocks[0], blocks[1], cols}, float4_source(tensor, std::move(keep))};
}

}  // namespace

const QuantizedLayout kBlocksLayout{"_blocks", kBlocksParts, matches_blocks, read_blocks};
const QuantizedLayout kPackedFloat4Layout{".weight_packed", kPackedParts, matches_packed, read_packed};
const QuantizedLayout kFloat4Layout{".weight", kModelOptParts, matches_model_opt, read_model_opt};

}  // namespace anabranch
