// The residual stream as several streams side by side (hyper-connections, Zhu et al. 2024, in the gated form
// of Transformers' Qwen4ExpTextGatedResidual). A row [n * H] has n streams of H values, one after the other.
// All tensors f32. A row's result depends on nothing but the row.
#pragma once

#include "tensor/tensor.h"

namespace anabranch::ops {

// rms_norm() of each stream, with its own part of w. x [M, n * H], w [n * H].
Tensor norm_streams(const Tensor& x, const Tensor& w, float eps, int streams);

// The mean over the streams of x * sigmoid(gates). x, gates [M, n * H] -> [M, H].
Tensor mix_streams(const Tensor& x, const Tensor& gates, int streams);

// Adds y to each stream, multiplied by 2 sigmoid(weight / n). x [M, n * H], y [M, H], weights [M, n].
Tensor add_to_streams(const Tensor& x, const Tensor& y, const Tensor& weights);

// Stream s of the result is sigmoid(g) * values, where g = sign(d) sqrt(max(|d|, 1e-6)) and d is the product
// of the stream's keys and queries, divided by sqrt(H) (Transformers' Qwen4ExpTextPLELayer). keys, queries
// [M, n * H], values [M, H] -> [M, n * H].
Tensor gate_streams(const Tensor& keys, const Tensor& queries, const Tensor& values, int streams);

}  // namespace anabranch::ops
