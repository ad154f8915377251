// Causal attention over a paged KV cache.
//
// KV lies in blocks of kKvBlock positions on an absolute grid: position p is column p % kKvBlock of block
// p / kKvBlock. A full block never changes, so sequences and snapshots can share it.
#pragma once

#include <span>
#include <vector>

#include "ops/backend.h"
#include "ops/linear.h"

namespace anabranch::ops {

constexpr int kKvBlock = 256;

// One layer's keys and values, in blocks that only the backend reads.
// CPU: f16, or f32 when ops::precise(), in tiles that the kernels read from front to back, 16 floats at a
// time:
//   k [Hkv, kKvBlock / 16, D, 16], position p of the block in tile p / 16, lane p % 16;
//   v [Hkv, ceil(D / 16), kKvBlock, 16], dimension d in tile d / 16, lane d % 16 (0 beyond D).
// CUDA: f16, k [Hkv, kKvBlock, D], v [Hkv, D, kKvBlock].
// Reference: f32, k [Hkv, D, kKvBlock], v [Hkv, kKvBlock, D].
struct PagedKv {
  int kv_heads = 0, head_dim = 0;
  int length = 0;  // positions filled
  std::vector<mx::array> k, v;
};

// Appends k, v [T, Hkv, D] f32 at positions length .. length + T - 1. A last block that is shared (its
// storage is referenced elsewhere) is copied first.
void kv_append(PagedKv& kv, const mx::array& k, const mx::array& v);

// Adds a block of zeros to k and v, as kv_append() does when the last one is full; length stays. What a full
// block's arrays hold may be copied from another block's of the same backend, precision and shape.
void kv_add_block(PagedKv& kv);

// Drops positions from `length` on. Whole blocks past the end are released.
void kv_truncate(PagedKv& kv, int length);

// q [T, Hq, D] f32, whose row t stands at position kv.length - T + t (its own k, v already appended) ->
// softmax(scale * q k^T) v over positions <= its own: [T, Hq, D] f32. Query head h reads kv head h / (Hq /
// Hkv). `window` > 0 limits a query to the last `window` positions, itself included (sliding-window
// attention). A row's result does not depend on T: blocks are visited in order with an online softmax
// (Milakov & Gimelshein 2018; Dao 2022), the same for prefill and decode.
mx::array attention(const mx::array& q, const PagedKv& kv, float scale, int window = 0);

// Rows [begin, begin + count) of a batch: the next tokens of a sequence.
struct AttentionSpan {
  PagedKv* kv = nullptr;
  int begin = 0, count = 0;
};

// A layer's projections of M rows, and what happens to them.
struct AttentionInputs {
  const mx::array &q, &k, &v;                          // [M, heads * D], [M, kv heads * D] x2, f32
  const mx::array* gate = nullptr;                     // [M, heads * D], or null
  const RowNorm *q_norm = nullptr, *k_norm = nullptr;  // of each head [D], or null
  std::span<const int> positions;                      // of the rows
  std::span<const float> inv_freq;                     // as rope()
  float attention_factor = 1.0f;
  int heads = 0;
  float scale = 0;  // of the scores
  int window = 0;
};

// Norms and rotates queries and keys, appends keys and values to each span's cache, and attends: attention()
// for each span, times sigmoid(gate) if there is one -> [M, heads * D], for linear_add(). The spans, each of
// another sequence, cover every row in order.
mx::array attend(const AttentionInputs& in, std::span<const AttentionSpan> spans);

}  // namespace anabranch::ops
