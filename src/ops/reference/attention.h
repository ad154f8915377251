// Blocks of keys [Hkv, D, kKvBlock] and of values [Hkv, kKvBlock, D], f32.
#pragma once

#include "ops/attention.h"

namespace anabranch::ops::reference {

KvBlockShapes kv_block_shapes(int kv_heads, int head_dim);
void kv_append(PagedKv& kv, const Tensor& k, const Tensor& v);
Tensor attention(const Tensor& q, const PagedKv& kv, const ScoreSpec& spec, bool whole);

}  // namespace anabranch::ops::reference
