// Implements ops/streams.h in plain MLX ops.
#pragma once

#include "tensor/tensor.h"

namespace anabranch::ops::reference {

Tensor norm_streams(const Tensor& x, const Tensor& w, float eps, int streams);
Tensor mix_streams(const Tensor& x, const Tensor& gates, int streams);
Tensor add_to_streams(const Tensor& x, const Tensor& y, const Tensor& weights);
Tensor gate_streams(const Tensor& keys, const Tensor& queries, const Tensor& values, int streams);

}  // namespace anabranch::ops::reference
