// What the tests of the CUDA backend try, with a device and without.
#pragma once

#include <vector>

#include "ops/gated_delta.h"
#include "ops/matrices.h"

namespace anabranch::ops {

constexpr double kBf16 = 1.0 / 256;  // one rounding to bf16, relative

inline const GatedDeltaShape kDeltaShapes[] = {{2, 4, 32, 32, 4}, {3, 3, 128, 128, 4}, {1, 3, 64, 64, 3}};

// Matrices of each format that the CUDA backend packs in a way of its own.
struct Format {
  Matrix matrix;
  const char* name;
};
inline std::vector<Format> formats(int rows, int cols) {
  return {{affine_matrix(rows, cols, 4, 64, ScaleType::bf16, false, 1), "4 bits, group 64"},
          {affine_matrix(rows, cols, 3, 32, ScaleType::f16, true, 2), "3 bits, group 32"},
          {affine_matrix(rows, cols, 5, 64, ScaleType::bf16, false, 3), "5 bits"},
          {affine_matrix(rows, cols, 6, 16, ScaleType::f32, true, 4), "6 bits, group 16"},
          {affine_matrix(rows, cols, 8, 64, ScaleType::f16, false, 5), "8 bits"},
          {dense_matrix(rows, cols, WeightKind::bf16, 6), "bf16"},
          {dense_matrix(rows, cols, WeightKind::f16, 7), "f16"},
          {dense_matrix(rows, cols, WeightKind::f32, 8), "f32"}};
}

}  // namespace anabranch::ops
