// Sources of the 4-bit and 8-bit floats of the Microscaling formats and NVFP4.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/weight_source.h"

namespace anabranch {

// Twice the values of E2M1, whose sign is the highest bit of a code.
inline constexpr CodeTable kFloat4Table{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

struct Float4Tensor {
  int64_t rows = 0, cols = 0;
  int64_t group = 0;                       // divides cols; even
  ScaleType scale_type = ScaleType::e8m0;  // or e4m3
  const std::byte* codes = nullptr;        // [rows, cols / 2], the lower half of a byte first
  const std::byte* scales = nullptr;       // [rows, cols / group], a byte each
  float factor = 1;                        // of the whole matrix
};
WeightSource float4_source(const Float4Tensor& tensor, std::shared_ptr<const void> keep);

// E4M3 codes [rows, cols] and E8M0 scales [rows, cols / 32].
WeightSource mxfp8_source(int64_t rows, int64_t cols, const std::byte* codes, const std::byte* scales,
                          std::shared_ptr<const void> keep);

// `count` scales of one byte to float, times `factor`.
void byte_scales_to_float(ScaleType type, const std::byte* data, int64_t count, float factor, float* out);

}  // namespace anabranch
