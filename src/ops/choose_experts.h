// The choice of experts for one row, on the host. The CPU and the reference use it.
#pragma once

#include <cstdint>
#include <span>

#include "ops/experts.h"

namespace anabranch::ops {

// Writes the row's experts and weights [top_k], as ops::route() defines them. Weights are computed in double
// and rounded to f32 at the end.
void choose_experts(std::span<const float> logits, const RouterSpec& spec, const float* expert_scale,
                    int32_t* experts, float* weights);

float sigmoid(float x);

}  // namespace anabranch::ops
