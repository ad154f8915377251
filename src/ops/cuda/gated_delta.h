// OpTable's recurrence() and recurrence_fold() for the sizes of Gated DeltaNet that is_tuned_gated_delta()
// names.
#pragma once

#include <span>

#include "ops/recurrence.h"

namespace anabranch::ops::cuda {

MatmulInput gated_delta(const RecurrenceInputs& in, const RecurrenceShape& shape,
                        const RecurrenceWeights& weights, std::span<const RecurrenceRun> runs, bool plain);
void fold_gated_delta(const RecurrenceShape& shape, const RecurrenceRun& run);

}  // namespace anabranch::ops::cuda
