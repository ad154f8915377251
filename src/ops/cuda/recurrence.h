// Implements OpTable's recurrence(), recurrence_fold() and short_conv().
#pragma once

#include <span>

#include "ops/recurrence.h"

namespace anabranch::ops::cuda {

MatmulInput recurrence(const RecurrenceInputs& in, const RecurrenceShape& shape,
                       const RecurrenceWeights& weights, std::span<const RecurrenceRun> runs, bool plain);
void recurrence_fold(const RecurrenceShape& shape, const RecurrenceRun& run);
MatmulInput short_conv(const Tensor& in, const RecurrenceShape& shape, const ShortConvWeights& weights,
                       std::span<const RecurrenceRun> runs, bool plain);

}  // namespace anabranch::ops::cuda
