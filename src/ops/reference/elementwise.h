#pragma once

#include <span>
#include <vector>

#include <mlx/array.h>

#include "ops/elementwise.h"
#include "ops/rope.h"

namespace anabranch::ops::reference {

mlx::core::array activated(const mlx::core::array& x, Activation activation);
Tensor rms_norm(const Tensor& x, const Tensor& w, float eps);
Tensor layer_norm(const Tensor& x, const Tensor& w, const Tensor& b, float eps);
Tensor gelu(const Tensor& x, Gelu kind);
Tensor relu2(const Tensor& x);
Tensor xielu(const Tensor& x, const Xielu& parameters);
Tensor add(const Tensor& a, const Tensor& b);
Tensor add_bias(const Tensor& x, const Tensor& b);
Tensor swiglu(const Tensor& gate, const Tensor& up, Activation activation);
mlx::core::array clamped(const mlx::core::array& gate, const mlx::core::array& up, const ClampedGlu& how);
Tensor clamped_glu(const Tensor& gate, const Tensor& up, const ClampedGlu& how);
Tensor scale(const Tensor& x, float factor);
Tensor soft_cap(const Tensor& x, float cap);
Tensor sigmoid_gate(const Tensor& x, const Tensor& gate);
Tensor take_rows(const Tensor& x, std::span<const int> rows);
Tensor concat_rows(const std::vector<Tensor>& parts);
Tensor rope(const Tensor& x, std::span<const int> positions, const Rope& rope, bool queries);

}  // namespace anabranch::ops::reference
