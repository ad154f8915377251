#pragma once

#include "ops/gated_delta.h"

namespace anabranch::ops::cpu {

mx::array gated_delta(const mx::array& qkv, const mx::array& z, const mx::array& b, const mx::array& a,
                      const GatedDeltaShape& shape, const GatedDeltaWeights& weights, GatedDeltaState& state);

}  // namespace anabranch::ops::cpu
