// Products of each head with a matrix of its own.
#pragma once

#include "ops/experts.h"

namespace anabranch::ops {

// x [M, heads * in] -> [M, heads * out]: each head's part of a row is multiplied with the head's own matrix,
// one of the stacked `matrices`. The same bits as linear() of that part.
Tensor linear_heads(const Tensor& x, const ExpertMatrices& matrices);

// a [M, heads, A], b [M, heads, B] -> [M, heads, A + B].
Tensor join_heads(const Tensor& a, const Tensor& b);

}  // namespace anabranch::ops
