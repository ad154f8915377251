// Implements ops/indexed_attention.h in plain MLX ops.
#pragma once

#include "ops/attention.h"

namespace anabranch::ops::reference {

Tensor index_keys(const PagedKv& keys, int ratio, int blocks);
Tensor index_scores(const Tensor& q, const Tensor& keys);
void kv_gather(const PagedKv& kv, std::span<const int> positions, PagedKv& out);

}  // namespace anabranch::ops::reference
