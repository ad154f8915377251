#pragma once

#include <span>

#include "ops/low_rank.h"

namespace anabranch::ops::reference {

void add_low_rank(std::span<LowRankOutput> outputs);

}  // namespace anabranch::ops::reference
