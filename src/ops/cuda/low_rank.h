// Implements ops/low_rank.h.
#pragma once

#include <span>

#include "ops/low_rank.h"

namespace anabranch::ops::cuda {

void add_low_rank(Tensor& y, std::span<const LowRankRows> parts);

}  // namespace anabranch::ops::cuda
