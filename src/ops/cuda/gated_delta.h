// Implements OpTable's recurrence() for Gated DeltaNet, and recurrence_fold().
#pragma once

#include <span>

#include "ops/recurrence.h"

namespace anabranch::ops::cuda {

MatmulInput gated_delta(const RecurrenceInputs& in, const RecurrenceShape& shape,
                        const RecurrenceWeights& weights, std::span<const RecurrenceRun> runs, bool plain);
void recurrence_fold(const RecurrenceShape& shape, const RecurrenceRun& run);

}  // namespace anabranch::ops::cuda
