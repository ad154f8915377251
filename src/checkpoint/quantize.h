// Quantises weights: slowly and well for files, or fast while they are loaded.
#pragma once

#include <cstdint>

#include "base/weight_source.h"
#include "checkpoint/quantization.h"

namespace anabranch {

struct QuantizeStats {
  double error = 0;         // sum of (w - w')^2
  double minmax_error = 0;  // the same for MLX's own quantiser
  double energy = 0;        // sum of w^2
  bool finite = true;       // a NaN or infinity among the weights makes the codes meaningless
};

// Affine quantisation of a row: better scales and biases than the minimum and maximum of a group give.
//
// importance [cols]: the weight of each column's squared error, also in `stats`; null: all count alike.
// values [cols] -> codes [cols], scales and biases [cols / group] as bits of f16 (`half`) or bf16. Adds to
// `stats`. The codes are chosen for the rounded scale and bias.
void quantize_row(const float* values, const float* importance, int64_t cols, const AffineFormat& format,
                  bool half, uint8_t* codes, uint16_t* scales, uint16_t* biases, QuantizeStats& stats);

// Rounds a source's values to 8 bits as they are read, with a scale and no bias for each group of 64 or 32. A
// source stays as it is if it is quantised already, or if its rows are no multiple of such a group.
WeightSource rounded_to_8_bits(WeightSource source);

}  // namespace anabranch
