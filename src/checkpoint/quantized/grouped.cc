#include "checkpoint/quantized/grouped.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"

namespace anabranch {

namespace {

// Group lengths that kernels support, the longest first (ops/weight.cc).
std::span<const int64_t> packed_groups(WeightKind kind) {
  static constexpr int64_t kAffine[] = {128, 64, 32, 16}, kTable[] = {32, 16}, kFp8[] = {128, 64, 32};
  if (kind == WeightKind::affine) return kAffine;
  if (kind == WeightKind::table) return kTable;
  return kFp8;
}

// The longest group length of the packed kind that divides the file's groups; 0 if none does.
int64_t packed_group(const GroupedCodes& codes) {
  const int64_t cols = codes.format.cols;
  if (codes.group_of) return 0;
  for (int64_t group : packed_groups(codes.format.kind))
    if (cols % group == 0 && (codes.groups == 1 || codes.group % group == 0)) return group;
  return 0;
}

WeightSource packed_source(GroupedCodes codes, int64_t group) {
  WeightSource out = codes.format;
  out.group = static_cast<int>(group);
  out.read_codes = [codes = std::move(codes), group](int64_t first, int64_t count, uint8_t* to, float* scales,
                                                     float* biases) {
    codes.read_codes(first, count, to);
    const int64_t own = codes.groups, packed = codes.format.cols / group;
    if (own == packed) return codes.read_scales(first, count, scales, biases);
    const bool symmetric = codes.format.symmetric;
    std::vector<float> s(static_cast<size_t>(count * own)), b(symmetric ? 0 : s.size());
    codes.read_scales(first, count, s.data(), b.data());
    for (int64_t r = 0; r < count; r++)
      for (int64_t g = 0; g < packed; g++) {
        const int64_t from = r * own + (own == 1 ? 0 : g * group / codes.group);
        scales[r * packed + g] = s[from];
        if (!symmetric) biases[r * packed + g] = b[from];
      }
  };
  return out;
}

WeightSource dense_values(GroupedCodes codes) {
  WeightSource out;
  out.rows = codes.format.rows;
  out.cols = codes.format.cols;
  out.read_dense = [codes = std::move(codes), value_of = code_values(codes.format)](
                       int64_t first, int64_t count, float* values) {
    const WeightSource& f = codes.format;
    std::vector<uint8_t> c(static_cast<size_t>(count * f.cols));
    std::vector<float> s(static_cast<size_t>(count * codes.groups)), b(s.size());
    codes.read_codes(first, count, c.data());
    codes.read_scales(first, count, s.data(), b.data());
    if (f.symmetric)
      for (size_t i = 0; i < s.size(); i++)
        b[i] = f.zero_point == 0 ? -0.0f : -static_cast<float>(f.zero_point) * s[i];
    for (int64_t r = 0; r < count; r++)
      for (int64_t i = 0; i < f.cols; i++) {
        const int64_t g = r * codes.groups + (codes.group_of ? (*codes.group_of)[i] : i / codes.group);
        values[r * f.cols + i] = value_of[c[r * f.cols + i]] * s[g] + b[g];
      }
  };
  return out;
}

}  // namespace

WeightSource grouped_source(GroupedCodes codes) {
  CHECK(codes.group_of || group_count(codes.format.cols, codes.group) == codes.groups,
        "{} groups of {} for {} inputs", codes.groups, codes.group, codes.format.cols);
  const int64_t group = packed_group(codes);
  return group > 0 ? packed_source(std::move(codes), group) : dense_values(std::move(codes));
}

}  // namespace anabranch
