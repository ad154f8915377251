// Implements OpTable's gated_delta() and gated_delta_fold().
#pragma once

#include <span>

#include "ops/gated_delta.h"

namespace anabranch::ops::cuda {

MatmulInput gated_delta(const GatedDeltaInputs& in, const GatedDeltaShape& shape,
                        const GatedDeltaWeights& weights, std::span<const DeltaRun> runs, bool plain);
void gated_delta_fold(const GatedDeltaShape& shape, const DeltaRun& run);

}  // namespace anabranch::ops::cuda
