// Dense tensors of f32, f16 or bf16, at any alignment, as weight sources.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/weight_source.h"

namespace anabranch {

int64_t dense_size(WeightKind kind);  // bytes of an element

// Converts `count` little-endian elements at `data` (unaligned) to float.
void dense_to_float(WeightKind kind, const std::byte* data, int64_t count, float* out);

// The inverse, rounding to nearest even. False when a finite value became infinite.
bool float_to_dense(WeightKind kind, const float* values, int64_t count, std::byte* out);

// A source of the rows of a row-contiguous tensor of rows * cols elements at `data`, which `keep` keeps
// alive.
WeightSource dense_source(WeightKind kind, const std::byte* data, int64_t rows, int64_t cols,
                          std::shared_ptr<const void> keep);

// A source of the columns of `count` such tensors [rows, cols], one after another: [count * cols, rows].
WeightSource transposed_source(WeightKind kind, const std::byte* data, int64_t count, int64_t rows,
                               int64_t cols, std::shared_ptr<const void> keep);

}  // namespace anabranch
