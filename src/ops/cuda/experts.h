// Mixtures of experts on the device: routing stays there, so that the host waits for nothing.
#pragma once

#include "ops/experts.h"

namespace anabranch::ops::cuda {

Routing route(const Tensor& logits, const RouterSpec& spec, const Tensor* expert_scale);
// The pairs of row and expert are sorted by expert on the device; one launch for gate, up and SwiGLU of all
// pairs, one for down, one for the weighted sums.
Tensor mix_experts(const Tensor& x, const RowNorm& norm, const Routing& routing, const Experts& experts,
                   const SharedExpert* shared);
// For few rows, each pair by itself: one launch for the choice, gate, up and SwiGLU, and one for down and the
// sums. The same bits as mix_experts().
Tensor mixture(const Tensor& x, const RowNorm& norm, const MixtureWeights& weights, bool add_x);

}  // namespace anabranch::ops::cuda
