// Quantised products for ops/reference/linear.h.
#pragma once

#include "ops/metal/kernel.h"
#include "ops/reference/weight.h"

namespace anabranch::ops::metal {

// Whether the kernel supports the weight's format: codes of 2, 4 or 8 bits.
bool has_linear(const reference::ReferenceWeight& weight);

// x [M, in] f32 -> x W^T [M, out] f32. Each code is read once for up to 16 rows of x; sums are the same for
// any number of rows.
mx::array linear(const Launcher& launcher, const mx::array& x, const reference::ReferenceWeight& weight);

}  // namespace anabranch::ops::metal
