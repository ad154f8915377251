// The layer shapes that the kernels support: checked when a model is loaded, and again by each launch. Needs
// no device.
#pragma once

#include <string>

#include "ops/recurrence.h"
#include "ops/rope.h"

namespace anabranch::ops::cuda {

// See OpTable: the reason why there are no kernels for it, or empty.
std::string attention_unsupported(int head_dim, const Rope& rope);
std::string recurrence_unsupported(const RecurrenceShape& shape);
// Whether gated_delta.h has kernels of its own for the layer.
bool is_tuned_gated_delta(const RecurrenceShape& shape);

}  // namespace anabranch::ops::cuda
