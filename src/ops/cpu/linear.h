#pragma once

#include <span>
#include <vector>

#include "ops/weight.h"

namespace anabranch::ops::cpu {

std::vector<mx::array> linear(const mx::array& x, std::span<const Weight* const> weights);
mx::array embed(std::span<const int> ids, const Weight& table);

}  // namespace anabranch::ops::cpu
