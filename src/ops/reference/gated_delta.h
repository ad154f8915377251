#pragma once

#include "ops/gated_delta.h"

namespace anabranch::ops::reference {

mx::array gated_delta(const mx::array& qkv, const mx::array& z, const mx::array& b, const mx::array& a,
                      const GatedDeltaShape& shape, const GatedDeltaWeights& weights, GatedDeltaState& state);
mx::array gated_delta_trial(const mx::array& qkv, const mx::array& z, const mx::array& b, const mx::array& a,
                            const GatedDeltaShape& shape, const GatedDeltaWeights& weights,
                            GatedDeltaState& state, std::span<const int> parents);
void gated_delta_settle(const GatedDeltaShape& shape, GatedDeltaState& state);

}  // namespace anabranch::ops::reference
