#pragma once

#include <span>

#include "ops/gated_delta.h"

namespace anabranch::ops::cuda {

// As in ops/gated_delta.h; the result is activations (ops/cuda/linear.h).
mx::array gated_delta_rows(const GatedDeltaInputs& in, const GatedDeltaShape& shape,
                           const GatedDeltaWeights& weights, std::span<const GatedDeltaSpan> spans);
// One sequence's; the result is f32.
mx::array gated_delta(const GatedDeltaInputs& in, const GatedDeltaShape& shape,
                      const GatedDeltaWeights& weights, GatedDeltaState& state, bool trial);
void gated_delta_settle(const GatedDeltaShape& shape, GatedDeltaState& state);

}  // namespace anabranch::ops::cuda
