// Implements ops/elementwise.h, and what ops/heads.h joins, cuts and gates.
#pragma once

#include <span>
#include <vector>

#include "ops/cuda/device.h"
#include "ops/elementwise.h"
#include "ops/heads.h"
#include "ops/linear.h"

namespace anabranch::ops::cuda {

// Number of threads that sum a row's squares: for 8 inputs each, or for up to 16 if a block of gemv.cuh then
// has enough threads. It only depends on the row's length, so a row's sum has the same order in every batch
// and kernel.
int norm_threads(int inputs);

// Copies rows of x [M, K], normalised if `norm` is not null, to f32 [M, K], to packed rows (linear.h) and to
// rows packed by lanes; each output may be null.
void norm_rows(CudaDevice& on, const Tensor& x, const RowNorm* norm, const Tensor* out,
               const MatmulInput* packed, const MatmulInput* lanes = nullptr);

Tensor rms_norm(const Tensor& x, const Tensor& w, float eps);
Tensor layer_norm(const Tensor& x, const Tensor& w, const Tensor& b, float eps);
Tensor gelu(const Tensor& x, Gelu kind);
Tensor relu2(const Tensor& x);
Tensor xielu(const Tensor& x, const Xielu& parameters);
Tensor clamped_glu(const Tensor& gate, const Tensor& up, const ClampedGlu& how);
Tensor add(const Tensor& a, const Tensor& b);
Tensor add_bias(const Tensor& x, const Tensor& b);
Tensor swiglu(const Tensor& gate, const Tensor& up, Activation activation);
Tensor scale(const Tensor& x, float factor);
Tensor soft_cap(const Tensor& x, float cap);
Tensor sigmoid_gate(const Tensor& x, const Tensor& gate);
// heads.h
Tensor join_heads(const Tensor& a, const Tensor& b);
Tensor cut_heads(const Tensor& x, int keep);
Tensor gate_heads(const Tensor& x, const Tensor& gate, GateCurve curve);
// Returns a view of x for consecutive rows.
Tensor take_rows(const Tensor& x, std::span<const int> rows);
Tensor concat_rows(const std::vector<Tensor>& parts);
std::vector<int> best_of_rows(const Tensor& x);

}  // namespace anabranch::ops::cuda
