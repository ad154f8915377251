#pragma once

#include <span>
#include <vector>

#include "ops/linear.h"

namespace anabranch::ops::reference {

// Inputs are always plain: no op of this device returns packed results.
std::vector<Tensor> linear(const MatmulInput& x, std::span<const Weight* const> weights, const RowNorm* norm);
Tensor linear_add(const MatmulInput& x, const Weight& weight, const Tensor& residual);
MatmulInput linear_swiglu(const Tensor& x, const Weight& gate, const Weight& up, const RowNorm& norm,
                          Activation activation);
Tensor embed(std::span<const int> ids, const Weight& table);

}  // namespace anabranch::ops::reference
