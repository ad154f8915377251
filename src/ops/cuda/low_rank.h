// Implements ops/low_rank.h.
#pragma once

#include <span>
#include <vector>

#include "ops/low_rank.h"

namespace anabranch::ops::cuda {

void add_low_rank(std::span<LowRankOutput> outputs);
std::vector<Tensor> low_rank_down(const MatmulInput& x, std::span<const LowRankDown> parts);
// activation(gate) * up after these additions, of two outputs of one shape.
MatmulInput low_rank_swiglu(std::span<LowRankOutput> outputs, Activation activation);

// linear.cc has these: blocks of a product of few rows add the parts themselves, if there are not too many.
std::vector<Tensor> linear_low_rank(const MatmulInput& x, std::span<const LowRankProduct> products,
                                    const Tensor* residual);
MatmulInput linear_low_rank_swiglu(const MatmulInput& x, std::span<const LowRankProduct> both,
                                   Activation activation);

}  // namespace anabranch::ops::cuda
