// Attention over positions that an index chooses (Transformers' Qwen4ExpTextQSAIndexer). A layer's index has
// one key for each position, and a few heads of queries. The keys of `ratio` positions in a row are a
// block's; of the blocks before a query, it sees those whose keys fit it best, and the positions after the
// last whole block.
//
// What a row sees depends on the rows up to its own and on nothing else, so any chunking gives the same bits.
#pragma once

#include "ops/attention.h"

namespace anabranch::ops {

struct IndexSpec {
  int ratio = 1;   // positions of a block
  int blocks = 1;  // that a query sees
  const RowNorm* key_norm = nullptr;
  const Rope* rope = nullptr;  // of the blocks' keys, each at its first position
};

// The mean of the keys of each of the first `blocks` blocks of `ratio` positions: [blocks, D] f32. The keys
// are those of one head.
Tensor index_keys(const PagedKv& keys, int ratio, int blocks);

// q [T, heads, D], keys [B, D] -> [T, B]: the sum over the heads of max(q . key, 0), divided by sqrt(D).
Tensor index_scores(const Tensor& q, const Tensor& keys);

// A cache of only these positions, ascending, in this order.
PagedKv kv_gather(const PagedKv& kv, std::span<const int> positions);

// The positions that a query at `position` sees, ascending: of the whole blocks those with the largest
// scores, at most spec.blocks, of equal ones the first; and the positions after them. scores: of the whole
// blocks.
std::vector<int> seen_positions(std::span<const float> scores, int position, const IndexSpec& spec);

// attention() of each row over the positions that it sees. index_q [T, heads, D]: normalised and turned.
// keys: the index's, without values of their own, as long as kv.
Tensor indexed_attention(const Tensor& q, const PagedKv& kv, const Tensor& index_q, const PagedKv& keys,
                         const IndexSpec& spec, const ScoreSpec& scores);

}  // namespace anabranch::ops
