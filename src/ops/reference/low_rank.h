#pragma once

#include <span>

#include "ops/low_rank.h"

namespace anabranch::ops::reference {

void add_low_rank(Tensor& y, std::span<const LowRankRows> parts);

}  // namespace anabranch::ops::reference
