#pragma once

#include "ops/experts.h"

namespace anabranch::ops::cpu {

Routing route(const Tensor& logits, const RouterSpec& spec, const Tensor* expert_scale,
              const Tensor* choice_bias);
Tensor linear_heads(const Tensor& x, const ExpertMatrices& matrices);
// Rows are sorted by expert: each expert in use is read once, and all experts are computed in parallel, with
// one list of units for the gate and up products and one for the down products.
Tensor mix_experts(const Tensor& x, const RowNorm* norm, const Routing& routing, const Experts& experts,
                   const SharedExpert* shared);

}  // namespace anabranch::ops::cpu
