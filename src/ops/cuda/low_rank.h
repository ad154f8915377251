// Implements ops/low_rank.h.
#pragma once

#include <span>
#include <vector>

#include "ops/low_rank.h"

namespace anabranch::ops::cuda {

void add_low_rank(std::span<LowRankOutput> outputs);
std::vector<Tensor> low_rank_down(const MatmulInput& x, std::span<const LowRankDown> parts);
MatmulInput low_rank_swiglu(std::span<LowRankOutput> outputs, Activation activation);

}  // namespace anabranch::ops::cuda
