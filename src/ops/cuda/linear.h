// Matrix products on the device. What only products read is kept as they read it: "activations", bf16 arrays
// [M, K] whose memory is in tiles of 64 inputs (kernels/common.cuh). linear() takes f32 or
// activations; linear_swiglu() and the mixers make activations.
#pragma once

#include <span>
#include <vector>

#include "ops/linear.h"

namespace anabranch::ops::cuda {

mx::array make_activations(int rows, int inputs);
// Rows that activations of so many rows are laid out for.
int layout_rows(int rows);

std::vector<mx::array> linear(const mx::array& x, std::span<const Weight* const> weights,
                              const RowNorm* norm);
mx::array linear_add(const mx::array& x, const Weight& weight, const mx::array& residual);
mx::array linear_swiglu(const mx::array& x, const Weight& gate, const Weight& up, const RowNorm& norm);
mx::array embed(std::span<const int> ids, const Weight& table);

}  // namespace anabranch::ops::cuda
