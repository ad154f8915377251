// Attention and rope() of ops/attention.h and ops/rope.h. Keys and values are f16: a block of keys
// [kv heads, kKvBlock, D], one of values [kv heads, D, kKvBlock].
#pragma once

#include "ops/attention.h"

namespace anabranch::ops::cuda {

KvBlockShapes kv_block_shapes(int kv_heads, int head_dim);
void kv_append(PagedKv& kv, const Tensor& k, const Tensor& v);
Tensor attention(const Tensor& q, const PagedKv& kv, const ScoreSpec& scores, bool whole);
// The result is packed. Rows must stand at the positions that follow those in the cache.
MatmulInput attend(const AttentionInputs& in, std::span<const AttentionSpan> spans);
Tensor rope(const Tensor& x, std::span<const int> positions, const Rope& rope, bool queries);

}  // namespace anabranch::ops::cuda
