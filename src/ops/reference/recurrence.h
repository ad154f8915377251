#pragma once

#include "ops/recurrence.h"

namespace anabranch::ops::reference {

MatmulInput recurrence(const RecurrenceInputs& in, const RecurrenceShape& shape,
                       const RecurrenceWeights& weights, std::span<const RecurrenceRun> runs, bool plain);
MatmulInput short_conv(const Tensor& in, const RecurrenceShape& shape, const ShortConvWeights& weights,
                       std::span<const RecurrenceRun> runs, bool);
void recurrence_fold(const RecurrenceShape& shape, const RecurrenceRun& run);

}  // namespace anabranch::ops::reference
