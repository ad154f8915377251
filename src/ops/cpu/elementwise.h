#pragma once

#include <span>
#include <vector>

#include "ops/elementwise.h"
#include "ops/heads.h"
#include "ops/rope.h"

namespace anabranch::ops::cpu {

Tensor rms_norm(const Tensor& x, const Tensor& w, float eps);
Tensor layer_norm(const Tensor& x, const Tensor& w, const Tensor& b, float eps);
Tensor gelu(const Tensor& x, Gelu kind);
Tensor relu2(const Tensor& x);
Tensor xielu(const Tensor& x, const Xielu& parameters);
Tensor add(const Tensor& a, const Tensor& b);
Tensor add_bias(const Tensor& x, const Tensor& b);
Tensor swiglu(const Tensor& gate, const Tensor& up, Activation activation);
Tensor clamped_glu(const Tensor& gate, const Tensor& up, const ClampedGlu& how);
Tensor scale(const Tensor& x, float factor);
Tensor soft_cap(const Tensor& x, float cap);
Tensor sigmoid_gate(const Tensor& x, const Tensor& gate);
Tensor take_rows(const Tensor& x, std::span<const int> rows);
Tensor concat_rows(const std::vector<Tensor>& parts);
Tensor join_heads(const Tensor& a, const Tensor& b);
Tensor cut_heads(const Tensor& x, int keep);
Tensor gate_heads(const Tensor& x, const Tensor& gate, GateCurve curve);
Tensor rope(const Tensor& x, std::span<const int> positions, const Rope& rope, bool queries);

}  // namespace anabranch::ops::cpu
