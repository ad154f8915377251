// E4M3 codes: the official form (weight_scale_inv, which multiplies in spite of its name),
// compressed-tensors, FBGEMM and ModelOpt (weight_scale). One scale for the matrix, for each row, or for each
// block of rows and columns. A stack of experts "<p>.gate_up_proj" has "<p>.gate_up_proj_scale_inv".
#include <cstring>

#include "checkpoint/dense.h"
#include "checkpoint/quantized/float4.h"
#include "checkpoint/quantized/grouped.h"
#include "checkpoint/quantized/layouts.h"
#include "checkpoint/store.h"

namespace anabranch {

namespace {

constexpr std::string_view kParts[] = {"_scale_inv", "_scale", "_scale_ub"};

const SafetensorsTensor* find_scale(const QuantizedModule& m) {
  const auto* inverse = m.find("_scale_inv");
  return inverse ? inverse : m.find("_scale");
}

bool matches(const QuantizedModule& m) {
  return m.main().dtype == "F8_E4M3" && find_scale(m);
}

std::optional<ScaleType> scale_type(std::string_view dtype) {
  if (dtype == "F32") return ScaleType::f32;
  if (dtype == "BF16") return ScaleType::bf16;
  if (dtype == "F16") return ScaleType::f16;
  if (dtype == "F8_E8M0" || dtype == "U8") return ScaleType::e8m0;
  return std::nullopt;
}

// The layout of the scales: [experts, rows, cols], each for a block of the matrix.
struct Scales {
  ScaleType type;
  const std::byte* data;
  int64_t rows, cols;              // number of scales, for one expert
  int64_t block_rows, block_cols;  // size of a block that shares a scale
  bool one;                        // a single scale for all experts
};

void read_scale_row(const Scales& s, int64_t at, float* out) {
  if (s.type == ScaleType::e8m0) return byte_scales_to_float(s.type, s.data + at, s.cols, 1, out);
  const WeightKind kind = s.type == ScaleType::f32    ? WeightKind::f32
                          : s.type == ScaleType::bf16 ? WeightKind::bf16
                                                      : WeightKind::f16;
  dense_to_float(kind, s.data + at * dense_size(kind), s.cols, out);
}

// The length of blocks that divide `length` into `count`; 0: unknown.
int64_t block_length(int64_t length, int64_t count, int64_t stated) {
  if (count == 1) return length;
  if (count == length) return 1;
  for (const int64_t block : {stated, int64_t{128}, int64_t{32}})
    if (block > 0 && group_count(length, block) == count) return block;
  return length % count == 0 ? length / count : 0;
}

// The scale's dimensions for one expert, as (rows, cols) of blocks: [] [1] [r] [r, 1] [r, c] [r, 1, c, 1].
std::optional<std::pair<int64_t, int64_t>> scale_dims(std::vector<int64_t> shape) {
  if (shape.size() == 4 && shape[1] == 1 && shape[3] == 1) shape = {shape[0], shape[2]};
  if (shape.empty()) return std::pair<int64_t, int64_t>{1, 1};
  if (shape.size() == 1) return std::pair<int64_t, int64_t>{shape[0], 1};
  if (shape.size() == 2) return std::pair{shape[0], shape[1]};
  return std::nullopt;
}

Result<Scales> find_scales(const QuantizedModule& m, const QuantizationContext& context) {
  const SafetensorsTensor& scale = *find_scale(m);
  const auto& w = m.main().shape;
  const auto fail = [&] {
    return m.invalid("its shape {} and the scales' {} of type {} do not go together", shape_text(w),
                     shape_text(scale.shape), scale.dtype);
  };
  const auto type = scale_type(scale.dtype);
  if (!type) return fail();
  const int64_t rows = w[w.size() - 2], cols = w.back();
  Scales out{*type, scale.data.data(), 1, 1, rows, cols, false};
  const auto shape = scale_shape(w, scale);
  if (!shape) return fail();
  out.one = shape->shared;
  if (out.one) return out;
  const auto dims = scale_dims(shape->one);
  if (!dims || dims->first < 1 || dims->second < 1) return fail();
  std::array<int64_t, 2> stated{0, 0};
  if (context.config) stated = context.config->block;
  if (stated[1] == 0 && context.config) stated[1] = context.config->group;
  out.rows = dims->first;
  out.cols = dims->second;
  out.block_rows = block_length(rows, out.rows, stated[0]);
  out.block_cols = block_length(cols, out.cols, stated[1]);
  if (out.block_rows == 0 || out.block_cols == 0) return fail();
  return out;
}

std::string type_name(const Scales& s, int64_t rows, int64_t cols) {
  if (s.rows == 1 && s.cols == 1) return "fp8/tensor";
  if (s.block_rows == 1 && s.cols == 1) return "fp8/channel";
  if (s.block_rows == 1 && s.type == ScaleType::e8m0 && s.block_cols == 32) return "mxfp8";
  return fmt::format("fp8/{}x{}", s.rows == 1 ? rows : s.block_rows, s.cols == 1 ? cols : s.block_cols);
}

Result<QuantizedMatrix> read(const QuantizedModule& m, const QuantizationContext& context,
                             std::shared_ptr<const void> keep) {
  const auto& w = m.main().shape;
  TRY(const MatrixSizes sizes, matrix_sizes(m));
  const auto [all_rows, rows, cols] = sizes;
  TRY(const auto s, find_scales(m, context));
  GroupedCodes codes;
  codes.format.rows = all_rows;
  codes.format.cols = cols;
  codes.format.kind = WeightKind::fp8;
  codes.format.bits = 8;
  codes.format.scale_type = s.type;
  codes.format.symmetric = true;
  codes.group = s.block_cols;
  codes.groups = s.cols;
  codes.read_codes = [data = m.main().data.data(), cols = cols, keep](int64_t first, int64_t count,
                                                                      uint8_t* out) {
    std::memcpy(out, data + first * cols, static_cast<size_t>(count * cols));
  };
  codes.read_scales = [s, rows = rows, keep](int64_t first, int64_t count, float* scales, float*) {
    for (int64_t i = 0; i < count; i++) {
      const int64_t expert = s.one ? 0 : (first + i) / rows, row = (first + i) % rows;
      read_scale_row(s, (expert * s.rows + row / s.block_rows) * s.cols, scales + i * s.cols);
    }
  };
  return QuantizedMatrix{type_name(s, rows, cols), w, grouped_source(std::move(codes))};
}

}  // namespace

const QuantizedLayout kFp8Layout{"", kParts, matches, read};

}  // namespace anabranch
