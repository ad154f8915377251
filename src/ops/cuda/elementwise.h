#pragma once

#include <span>
#include <vector>

#include "ops/elementwise.h"
#include "ops/linear.h"

namespace anabranch::ops::cuda {

// Rows of x [M, K], normalised if `norm`, to f32 [M, K] and to activations (linear.h); either may be null.
void norm_rows(const mx::array& x, const RowNorm* norm, mx::array* out, mx::array* activations);

mx::array rms_norm(const mx::array& x, const mx::array& w, float eps);
mx::array add(const mx::array& a, const mx::array& b);
mx::array add_bias(const mx::array& x, const mx::array& b);
mx::array swiglu(const mx::array& gate, const mx::array& up);
mx::array sigmoid_gate(const mx::array& x, const mx::array& gate);
mx::array take_rows(const mx::array& x, std::span<const int> rows);
mx::array reshape(const mx::array& x, mx::Shape shape);
mx::array slice_rows(const mx::array& x, int begin, int end);
mx::array concat_rows(const std::vector<mx::array>& parts);
std::vector<int> best_of_rows(const mx::array& x);

}  // namespace anabranch::ops::cuda
