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

// One layer's keys and values, in blocks of Device::kv_dtype(). Only the backend knows the layout of a block
// (see its attention.h).
struct PagedKv {
  int kv_heads = 0, head_dim = 0;
  int length = 0;            // filled positions
  std::vector<Tensor> k, v;  // one tensor per block; an empty tensor where the block was dropped
  // Above 0: the values are the last value_dim dimensions of the keys, and the tensors in v are empty. Only
  // for devices with OpTable::linear_heads.
  int value_dim = 0;
};

// Appends k, v [T, Hkv, D] f32 (v is not read if values are a part of the keys) at positions length .. length
// + T - 1. If the last block is shared (its
// storage is referenced elsewhere), it is copied first.
void kv_append(PagedKv& kv, const Tensor& k, const Tensor& v);

// The shapes of a block's keys and values. A block's tensors may be copied from another block of the same
// kind of device, dtype and shape.
struct KvBlockShapes {
  Shape k, v;
};
KvBlockShapes kv_block_shapes(const Device& device, int kv_heads, int head_dim);

// Adds a block of zeros to k and v, as kv_append() does when the last one is full; length stays.
void kv_add_block(Device& device, PagedKv& kv);

// Drops the blocks that no query from position kv.length on can see through the window (0: no window).
// Returns the number of leading blocks that have been dropped so far.
int kv_drop_unseen(PagedKv& kv, int window);
// The first block that a query at `position` sees.
int first_block_seen(int position, int window);

// Drops positions from `length` on. Whole blocks past the end are released.
void kv_truncate(PagedKv& kv, int length);

// How scores are computed from queries and keys: scale * q k^T, then cap * tanh(score / cap) if soft_cap > 0
// (Gemma 2). window > 0 limits a query to the last `window` positions, itself included (sliding-window
// attention). sinks: a score for each query head that takes part in the softmax as if a position without a
// value had it (attention sinks, Xiao et al. 2023; gpt-oss).
struct ScoreSpec {
  float scale = 0;
  int window = 0;
  float soft_cap = 0;
  Tensor sinks = {};  // [Hq] f32, or empty: there are none
};

// q [T, Hq, D] f32, where row t is at position kv.length - T + t (its own k, v are already appended) ->
// softmax(scores) v over all positions up to its own: [T, Hq, D or value_dim] f32. Query head h reads kv head
// h / (Hq / Hkv). A row's result does not depend on T: blocks are visited in order with an online softmax
// (Milakov & Gimelshein 2018; Dao 2022), the same for prefill and decode. whole: each row sees all kv.length
// positions, including those after its own (images).
Tensor attention(const Tensor& q, const PagedKv& kv, const ScoreSpec& scores, bool whole = false);

// Rows [begin, begin + count) of a batch: the next tokens of a sequence. whole: the rows attend to each other
// in both directions, so their result depends on where the span ends.
struct AttentionSpan {
  PagedKv* kv = nullptr;
  int begin = 0, count = 0;
  bool whole = false;
};

// A layer's projections of M rows, and how to process them.
struct AttentionInputs {
  const Tensor &q, &k, &v;                             // [M, heads * D], [M, kv heads * D] x2, f32
  const Tensor* gate = nullptr;                        // [M, heads * D], or null
  const RowNorm *q_norm = nullptr, *k_norm = nullptr;  // norms per head [D], or null
  std::span<const int> positions;                      // positions of the rows, in the format of rope()
  const Rope* rope = nullptr;
  int heads = 0;
  ScoreSpec scores;
  bool plain = false;  // the result must be an f32 tensor; otherwise it may be packed
};

// Applies norms and rotary positions to queries and keys, appends keys and values to each span's cache, and
// runs attention() for each span; multiplies by sigmoid(gate) if there is a gate. -> [M, heads * D], for
// linear_add(). The spans cover every row in order, and each belongs to a different sequence.
MatmulInput attend(const AttentionInputs& in, std::span<const AttentionSpan> spans);

}  // namespace anabranch::ops
