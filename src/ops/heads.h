// Ops on each head of the rows.
#pragma once

#include "ops/experts.h"

namespace anabranch::ops {

// x [M, heads * in] -> [M, heads * out]: each head's part of a row is multiplied with the head's own matrix,
// one of the stacked `matrices`. The same bits as linear() of that part.
Tensor linear_heads(const Tensor& x, const ExpertMatrices& matrices);

// a [M, heads, A], b [M, heads, B] -> [M, heads, A + B].
Tensor join_heads(const Tensor& a, const Tensor& b);
// The first `keep` values of each head: x [M, heads, A] -> [M, heads, keep].
Tensor cut_heads(const Tensor& x, int keep);

// Output gates of attention: x [M, heads * D] -> same; each head is multiplied by what the curve makes of its
// number in gate [M, heads], or each value by its own in gate [M, heads * D].
// softplus(g) = log(1 + e^g).
enum class GateCurve { sigmoid, softplus };
Tensor gate_heads(const Tensor& x, const Tensor& gate, GateCurve curve);

}  // namespace anabranch::ops
