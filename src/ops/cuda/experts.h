// Mixtures of experts, and products of heads, on the device. Routing stays on the device, so that the host
// does not have to wait.
#pragma once

#include "ops/heads.h"

namespace anabranch::ops::cuda {

// See OpTable.
Tensor linear_heads(const Tensor& x, const ExpertMatrices& matrices);
Routing route(const Tensor& logits, const RouterSpec& spec, const Tensor* expert_scale,
              const Tensor* choice_bias);
// Sorts the (row, expert) pairs by expert on the device; then one launch for gate, up and SwiGLU of all
// pairs, one for down, one for the weighted sums.
Tensor mix_experts(const Tensor& x, const RowNorm* norm, const Routing& routing, const Experts& experts,
                   const SharedExpert* shared);
// For few rows, treats each pair by itself: one launch for the choice, gate, up and SwiGLU, and one for down
// and the sums. The same bits as mix_experts().
Tensor mixture(const Tensor& x, const RowNorm* norm, const MixtureWeights& weights, bool add_x);

}  // namespace anabranch::ops::cuda
