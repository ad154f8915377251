#pragma once

#include <span>
#include <vector>

#include "ops/linear.h"

namespace anabranch::ops::reference {

std::vector<mx::array> linear(const mx::array& x, std::span<const Weight* const> weights,
                              const RowNorm* norm);
mx::array linear_add(const mx::array& x, const Weight& weight, const mx::array& residual);
mx::array linear_swiglu(const mx::array& x, const Weight& gate, const Weight& up, const RowNorm& norm);
mx::array embed(std::span<const int> ids, const Weight& table);

}  // namespace anabranch::ops::reference
