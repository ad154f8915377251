#pragma once

#include "ops/heads.h"

namespace anabranch::ops::reference {

Tensor linear_heads(const Tensor& x, const ExpertMatrices& matrices);
Tensor join_heads(const Tensor& a, const Tensor& b);
Tensor cut_heads(const Tensor& x, int keep);
Tensor gate_heads(const Tensor& x, const Tensor& gate, GateCurve curve);
Routing route(const Tensor& logits, const RouterSpec& spec, const Tensor* expert_scale,
              const Tensor* choice_bias);
// Computes one expert after another.
Tensor mix_experts(const Tensor& x, const RowNorm* norm, const Routing& routing, const Experts& experts,
                   const SharedExpert* shared);

}  // namespace anabranch::ops::reference
