// Attention over a paged KV cache.
//
// KV lies in blocks of kKvBlock positions on an absolute grid: position p is column p % kKvBlock of block
// p / kKvBlock. A full block never changes, so sequences and snapshots can share it.
#pragma once

#include <span>
#include <vector>

#include "base/limits.h"
#include "ops/linear.h"
#include "ops/rope.h"
#include "tensor/tensor.h"

namespace anabranch::ops {

using anabranch::kKvBlock;

// One layer's keys and values, in blocks of Device::kv_dtype() whose layout only the backend knows (the
// attention.h of each).
struct PagedKv {
  int kv_heads = 0, head_dim = 0;
  int length = 0;            // positions filled
  std::vector<Tensor> k, v;  // of each block; empty tensors where blocks were dropped
};

// Appends k, v [T, Hkv, D] f32 at positions length .. length + T - 1. A last block that is shared (its
// storage is referenced elsewhere) is copied first.
void kv_append(PagedKv& kv, const Tensor& k, const Tensor& v);

// The shapes of a block's keys and values. A block's tensors may be copied from those of another block of the
// same kind of device, dtype and shape.
struct KvBlockShapes {
  Shape k, v;
};
KvBlockShapes kv_block_shapes(const Device& device, int kv_heads, int head_dim);

// Adds a block of zeros to k and v, as kv_append() does when the last one is full; length stays.
void kv_add_block(Device& device, PagedKv& kv);

// Drops the blocks that no query from position kv.length on can see through the window (0: none), and returns
// how many blocks at the beginning are not there.
int kv_drop_unseen(PagedKv& kv, int window);
// The first block that a query at `position` sees.
int first_block_seen(int position, int window);

// Drops positions from `length` on. Whole blocks past the end are released.
void kv_truncate(PagedKv& kv, int length);

// How the scores of queries and keys are made: scale * q k^T, then cap * tanh(score / cap) if soft_cap > 0
// (Gemma 2). window > 0 limits a query to the last `window` positions, itself included (sliding-window
// attention).
struct ScoreSpec {
  float scale = 0;
  int window = 0;
  float soft_cap = 0;
};

// q [T, Hq, D] f32, whose row t stands at position kv.length - T + t (its own k, v already appended) ->
// softmax(scores) v over positions <= its own: [T, Hq, D] f32. Query head h reads kv head h / (Hq / Hkv). A
// row's result does not depend on T: blocks are visited in order with an online softmax (Milakov & Gimelshein
// 2018; Dao 2022), the same for prefill and decode. whole: each row sees all kv.length positions, also those
// after its own (pictures).
Tensor attention(const Tensor& q, const PagedKv& kv, const ScoreSpec& scores, bool whole = false);

// Rows [begin, begin + count) of a batch: the next tokens of a sequence. whole: they see each other both
// ways, so their result depends on where the span ends.
struct AttentionSpan {
  PagedKv* kv = nullptr;
  int begin = 0, count = 0;
  bool whole = false;
};

// A layer's projections of M rows, and what happens to them.
struct AttentionInputs {
  const Tensor &q, &k, &v;                             // [M, heads * D], [M, kv heads * D] x2, f32
  const Tensor* gate = nullptr;                        // [M, heads * D], or null
  const RowNorm *q_norm = nullptr, *k_norm = nullptr;  // of each head [D], or null
  std::span<const int> positions;                      // of the rows: as rope() takes them
  const Rope* rope = nullptr;
  int heads = 0;
  ScoreSpec scores;
};

// Norms and rotates queries and keys, appends keys and values to each span's cache, and attends: attention()
// for each span, times sigmoid(gate) if there is one -> [M, heads * D], for linear_add(). The spans, each of
// another sequence, cover every row in order.
MatmulInput attend(const AttentionInputs& in, std::span<const AttentionSpan> spans);

}  // namespace anabranch::ops
