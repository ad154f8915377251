#include "checkpoint/quantized/int_codes.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "checkpoint/quantized/grouped.h"

namespace anabranch {

namespace {

// The zero point of all groups, if they share one.
std::optional<int> common_zero(const IntCodes& c) {
  if (!c.read_zeros) return c.zero;
  if (c.headers_only) return std::nullopt;
  constexpr int64_t kRows = 16;
  std::vector<uint8_t> zeros(static_cast<size_t>(kRows * c.groups));
  std::optional<int> common;
  for (int64_t first = 0; first < c.rows; first += kRows) {
    const int64_t count = std::min(kRows, c.rows - first);
    c.read_zeros(first, count, zeros.data());
    for (int64_t i = 0; i < count * c.groups; i++) {
      if (common.value_or(zeros[i]) != zeros[i]) return std::nullopt;
      common = zeros[i];
    }
  }
  return common;
}

}  // namespace

WeightSource int_source(IntCodes c) {
  GroupedCodes out;
  out.format.rows = c.rows;
  out.format.cols = c.cols;
  out.format.kind = WeightKind::affine;
  out.format.bits = c.bits;
  out.group = c.group;
  out.groups = c.groups;
  out.group_of = c.group_of;
  out.read_codes = c.read_codes;
  if (const auto zero = common_zero(c)) {
    out.format.symmetric = true;
    out.format.zero_point = *zero;
    out.format.scale_type = c.scale_kind == WeightKind::f16    ? ScaleType::f16
                            : c.scale_kind == WeightKind::bf16 ? ScaleType::bf16
                                                               : ScaleType::f32;
    out.read_scales = [read = c.read_scales](int64_t first, int64_t count, float* scales, float*) {
      read(first, count, scales);
    };
    return grouped_source(std::move(out));
  }
  out.format.scale_type = ScaleType::f32;  // a 16-bit scale times a zero point needs it
  out.read_scales = [scales_of = c.read_scales, zeros_of = c.read_zeros, groups = c.groups](
                        int64_t first, int64_t count, float* scales, float* biases) {
    std::vector<uint8_t> zeros(static_cast<size_t>(count * groups));
    scales_of(first, count, scales);
    zeros_of(first, count, zeros.data());
    for (int64_t i = 0; i < count * groups; i++) biases[i] = -static_cast<float>(zeros[i]) * scales[i];
  };
  return grouped_source(std::move(out));
}

Result<std::shared_ptr<const std::vector<int32_t>>> read_group_index(const QuantizedModule& m,
                                                                     const SafetensorsTensor& index,
                                                                     int64_t cols, int64_t group,
                                                                     int64_t groups) {
  if (index.dtype != "I32" || index.data.size() != static_cast<size_t>(cols) * 4)
    return m.invalid("\"{}\" has type {} and shape {}; a group for each of {} inputs was expected",
                     shown(index.name), index.dtype, shape_text(index.shape), cols);
  if (m.headers_only()) return std::shared_ptr<const std::vector<int32_t>>();
  auto out = std::make_shared<std::vector<int32_t>>(static_cast<size_t>(cols));
  std::memcpy(out->data(), index.data.data(), index.data.size());
  bool trivial = true, unset = true;
  for (int64_t i = 0; i < cols; i++) {
    const int32_t g = (*out)[i];
    unset &= g == -1;
    trivial &= g == i / group;
    if (g < -1 || g >= groups)
      return m.invalid("\"{}\": input {} is in group {}, but there are {} groups", shown(index.name), i, g,
                       groups);
  }
  if (trivial || unset) return std::shared_ptr<const std::vector<int32_t>>();  // -1: never set by the tool
  if (std::ranges::find(*out, -1) != out->end())
    return m.invalid("\"{}\": an input is in no group", shown(index.name));
  return std::shared_ptr<const std::vector<int32_t>>(std::move(out));
}

int64_t group_length(int64_t cols, int64_t groups, int64_t stated) {
  if (groups == 1) return cols;
  if (stated > 0 && group_count(cols, stated) == groups) return stated;
  return groups > 0 && cols % groups == 0 ? cols / groups : 0;
}

}  // namespace anabranch
