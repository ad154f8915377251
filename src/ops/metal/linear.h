// Quantised products for ops/reference/linear.h.
#pragma once

#include <optional>

#include "ops/reference/weight.h"

namespace anabranch::ops::metal {

// x [M, in] f32 -> x W^T [M, out] f32, with each code read once for up to 16 rows of x, by the same sums for
// any number of rows; nothing when the kernel does not know the weight's format (codes of 2, 4 or 8 bits).
std::optional<mx::array> linear(const mx::array& x, const reference::ReferenceWeight& weight);

}  // namespace anabranch::ops::metal
