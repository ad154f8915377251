// Row-wise and element-wise ops. All tensors f32 unless said otherwise.
#pragma once

#include <span>
#include <vector>

#include "tensor/tensor.h"

namespace anabranch::ops {

// x [M, K], w [K] -> x / sqrt(mean(x^2) + eps) * w  (Zhang & Sennrich 2019).
Tensor rms_norm(const Tensor& x, const Tensor& w, float eps);

// x [M, K], w, b [K] -> (x - mean) / sqrt(variance + eps) * w + b, the variance over K (Ba et al. 2016).
Tensor layer_norm(const Tensor& x, const Tensor& w, const Tensor& b, float eps);

// a + b, same shape. add_bias: x [M, N] + b [N].
Tensor add(const Tensor& a, const Tensor& b);
Tensor add_bias(const Tensor& x, const Tensor& b);

// The activation of the gate of a gated linear unit (Shazeer 2020): silu makes SwiGLU; gelu_tanh makes GeGLU,
// with gelu(x) = x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) (Hendrycks & Gimpel 2016).
enum class Activation { silu, gelu_tanh };

// In place of activation(gate) * up: g * sigmoid(alpha * g) * (u + 1), where g is gate, at most limit, and u
// is up, within -limit and limit (gpt-oss).
struct ClampedGlu {
  float alpha = 1.702f, limit = 7;
  bool silu_first = false;  // silu(gate), at most limit, times u takes its place (Step 3.5)
};

// activation(gate) * up, same shape.
Tensor swiglu(const Tensor& gate, const Tensor& up, Activation activation = Activation::silu);
Tensor clamped_glu(const Tensor& gate, const Tensor& up, const ClampedGlu& how);

// GELU: x times the standard normal cumulative distribution at x, by tanh as above or by erf. x of any shape.
enum class Gelu { tanh, erf };
Tensor gelu(const Tensor& x, Gelu kind);

// max(x, 0)^2 (So et al. 2021, "Primer"). x of any shape.
Tensor relu2(const Tensor& x);

// xIELU (Huang & Schlag 2024): above 0, positive x^2 + linear x, otherwise
// negative (expm1(min(x, near)) - x) + linear x. x of any shape.
struct Xielu {
  float positive = 0.8f, negative = 0.8f, linear = 0.5f, near = -1e-6f;
};
Tensor xielu(const Tensor& x, const Xielu& parameters);

// factor * x; cap * tanh(x / cap), with cap > 0. x of any shape.
Tensor scale(const Tensor& x, float factor);
Tensor soft_cap(const Tensor& x, float cap);

// x * sigmoid(gate), same shape: the output gate of Qwen3.5's attention.
Tensor sigmoid_gate(const Tensor& x, const Tensor& gate);

// Rows `rows` of x [M, K] -> [rows.size(), K].
Tensor take_rows(const Tensor& x, std::span<const int> rows);

// Rows [begin, end) of x in their own storage, so that the rest of x is not kept alive. x f32.
Tensor copy_rows(const Tensor& x, int begin, int end);

// Tensors [M_i, ...] stacked along the first axis -> [sum M_i, ...]. One tensor is returned as it is.
Tensor concat_rows(const std::vector<Tensor>& parts);

// The index of the first largest element in each row of x [M, N]; -1 for a row with a NaN or whose largest
// element is not finite.
std::vector<int> best_of_rows(const Tensor& x);
// The same for one row, not empty, in the host's memory.
int best_of_row(std::span<const float> row);

}  // namespace anabranch::ops
