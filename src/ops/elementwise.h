// Row-wise and element-wise ops. All arrays f32 and row-contiguous unless said otherwise.
#pragma once

#include <span>
#include <vector>

#include "ops/backend.h"

namespace anabranch::ops {

// x [M, K], w [K] -> x / sqrt(mean(x^2) + eps) * w  (Zhang & Sennrich 2019).
mx::array rms_norm(const mx::array& x, const mx::array& w, float eps);

// a + b, same shape. add_bias: x [M, N] + b [N].
mx::array add(const mx::array& a, const mx::array& b);
mx::array add_bias(const mx::array& x, const mx::array& b);

// silu(gate) * up, same shape (Shazeer 2020, SwiGLU).
mx::array swiglu(const mx::array& gate, const mx::array& up);

// x * sigmoid(gate), same shape: the output gate of Qwen3.5's attention.
mx::array sigmoid_gate(const mx::array& x, const mx::array& gate);

// Rows `rows` of x [M, K] -> [rows.size(), K].
mx::array take_rows(const mx::array& x, std::span<const int> rows);

// The same data under another shape (row-contiguous), sharing storage.
mx::array reshape(const mx::array& x, mx::Shape shape);

// Rows [begin, end) of x [M, ...], sharing storage.
mx::array slice_rows(const mx::array& x, int begin, int end);

// The same rows in storage of their own: the rest of x is not kept alive. x f32.
mx::array copy_rows(const mx::array& x, int begin, int end);

// Arrays [M_i, ...] stacked along the first axis -> [sum M_i, ...]. One array is returned as it is.
mx::array concat_rows(const std::vector<mx::array>& parts);

// The first largest element of each row of x [M, N]; -1 for a row with a NaN or whose largest is not finite.
std::vector<int> best_of_rows(const mx::array& x);
// The same of one row, not empty, in the host's memory.
int best_of_row(std::span<const float> row);

// Rotary embedding, half-split ("NeoX") form: with d = inv_freq.size(), dimension i < d of a head is paired
// with dimension i + d and turned by positions[m] * inv_freq[i]; dimensions >= 2d pass through. x [M, heads,
// D] -> same. The angle is computed in double precision. (Su et al. 2021; Transformers'
// apply_rotary_pos_emb.)
mx::array rope(const mx::array& x, std::span<const int> positions, std::span<const float> inv_freq,
               float attention_factor = 1.0f);

}  // namespace anabranch::ops
