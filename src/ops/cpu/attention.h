// Attention over keys and values in blocks.
//
// Layout of a block's keys and values: tiles that the kernels read from front to back, 16 numbers at a time;
// f16, or f32 on a precise device:
//   k [Hkv, kKvBlock / 16, D, 16], position p of the block in tile p / 16, lane p % 16;
//   v [Hkv, ceil(D / 16), kKvBlock, 16], dimension d in tile d / 16, lane d % 16 (0 beyond D).
// Values that are a part of the keys have no tiles of their own: the kernel makes them from those of the
// keys.
#pragma once

#include "ops/attention.h"

namespace anabranch::ops::cpu {

KvBlockShapes kv_block_shapes(int kv_heads, int head_dim);
void kv_append(PagedKv& kv, const Tensor& k, const Tensor& v);
Tensor attention(const Tensor& q, const PagedKv& kv, const ScoreSpec& scores, bool whole);

}  // namespace anabranch::ops::cpu
