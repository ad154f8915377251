#pragma once

#include "ops/gated_delta.h"

namespace anabranch::ops::cpu {

MatmulInput gated_delta(const GatedDeltaInputs& in, const GatedDeltaShape& shape,
                        const GatedDeltaWeights& weights, std::span<const DeltaRun> runs, bool plain);
void gated_delta_fold(const GatedDeltaShape& shape, const DeltaRun& run);

}  // namespace anabranch::ops::cpu
