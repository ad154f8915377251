// What the tests of the CUDA backend try, with a device and without.
#pragma once

#include <vector>

#include "base/float16.h"
#include "ops/matrices.h"
#include "ops/recurrence.h"

namespace anabranch::ops {

constexpr double kBf16 = 1.0 / 256;  // one rounding to bf16, relative

inline const RecurrenceShape kDeltaShapes[] = {
    {2, 4, 32, 32, 4}, {3, 3, 128, 128, 4}, {1, 3, 64, 64, 3}, {1, 2, 32, 64, 4, true}};

// What packing changes, relative to Matrix::magnitude(): scales and biases are rounded to bf16, f32 values to
// two bf16 numbers.
inline double packing_error(const Matrix& m) {
  if (m.table == kUnknownTable) return kBf16 * kBf16;
  if (is_coded(m.kind)) return m.scale_type == ScaleType::bf16 || m.scale_type == ScaleType::e8m0 ? 0 : kBf16;
  return m.kind == WeightKind::f32 ? kBf16 * kBf16 : 0;
}

inline double to_bf16(double x) {
  return bf16_to_float(float_to_bf16(static_cast<float>(x)));
}

// The number, or sum of two, that the tensor cores multiply. Rounding it makes an error of kBf16 of its size;
// of two planes, the high one with the bias and the low one, kBf16 of the sum of their sizes: together with
// the rounding of scale and bias at most weight_error() of Matrix::magnitude().
inline double multiplied_weight(const Matrix& m, int row, int k) {
  if (!is_coded(m.kind) || m.table == kUnknownTable) {
    const double value = m.value(row, k), high = to_bf16(value);
    return m.kind == WeightKind::bf16 ? high : high + to_bf16(value - high);
  }
  const auto g = static_cast<size_t>(row * m.groups() + k / m.group);
  if (m.kind != WeightKind::affine) return to_bf16(m.code_value(row, k) * to_bf16(m.scales[g]));
  const double scale = to_bf16(m.scales[g]),
               bias = m.symmetric ? -m.zero_point * scale : to_bf16(m.biases[g]);
  const int code = m.codes[static_cast<size_t>(row * m.cols + k)];
  if (m.bits <= 4) return to_bf16(code * scale + bias);
  return to_bf16(code / 16 * 16 * scale + bias) + to_bf16(code % 16 * scale);
}
inline double weight_error(const Matrix& m) {
  return packing_error(m) + (is_coded(m.kind) ? kBf16 * (1 + kBf16) : 0);
}

// Matrices of each format that the CUDA backend packs in a way of its own.
struct Format {
  Matrix matrix;
  const char* name;
};
inline std::vector<Format> formats(int rows, int cols) {
  return {
      {affine_matrix(rows, cols, 4, 64, ScaleType::bf16, false, 1), "4 bits, group 64"},
      {affine_matrix(rows, cols, 3, 32, ScaleType::f16, true, 2), "3 bits, group 32"},
      {affine_matrix(rows, cols, 5, 64, ScaleType::bf16, false, 3), "5 bits"},
      {affine_matrix(rows, cols, 6, 16, ScaleType::f32, true, 4), "6 bits, group 16"},
      {affine_matrix(rows, cols, 8, 64, ScaleType::f16, false, 5), "8 bits"},
      {coded_matrix(rows, cols, WeightKind::table, 32, ScaleType::f16, 9), "IQ4"},
      {coded_matrix(rows, cols, WeightKind::table, 16, ScaleType::e4m3, 10, kFp4Table), "NVFP4"},
      {coded_matrix(rows, cols, WeightKind::table, 32, ScaleType::e8m0, 11, kFp4Table), "MXFP4"},
      {coded_matrix(rows, cols, WeightKind::table, 32, ScaleType::f16, 12, kUnknownTable), "another table"},
      {coded_matrix(rows, cols, WeightKind::fp8, 64, ScaleType::f32, 13), "E4M3"},
      {coded_matrix(rows, cols, WeightKind::fp8, 32, ScaleType::e8m0, 14), "MXFP8"},
      {dense_matrix(rows, cols, WeightKind::bf16, 6), "bf16"},
      {dense_matrix(rows, cols, WeightKind::f16, 7), "f16"},
      {dense_matrix(rows, cols, WeightKind::f32, 8), "f32"}};
}

}  // namespace anabranch::ops
