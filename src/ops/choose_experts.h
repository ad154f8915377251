// The choice of experts for one row, on the host. The CPU and the reference use it.
#pragma once

#include <cstdint>
#include <span>

#include "ops/experts.h"

namespace anabranch::ops {

// Writes the row's experts and weights [top_k], as ops::route() defines them. Scores are computed in double,
// and rounded to f32 before a bias is added and before they are compared; weights are rounded at the end.
void choose_experts(std::span<const float> logits, const RouterSpec& spec, const float* expert_scale,
                    const float* choice_bias, int32_t* experts, float* weights);

float sigmoid(float x);

}  // namespace anabranch::ops
