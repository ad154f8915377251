#pragma once

#include "nn/batch.h"
#include "nn/linear.h"

namespace anabranch::nn {

struct Rope {
  std::vector<float> inv_freq;  // [rotated dims / 2]
  float attention_factor = 1.0f;
};

// Grouped-query attention with rotary positions; norms of queries and keys and the output gate are optional.
struct Attention {
  int heads = 0, kv_heads = 0, head_dim = 0;
  float scale = 0;  // of the scores
  int window = 0;   // sliding window in positions, 0 = none
  Rope rope;
  Linear q, k, v, o;                      // [heads * D, H], [kv_heads * D, H] x2, [H, heads * D]
  std::optional<Linear> gate;             // [heads * D, H]: output = o(attention * sigmoid(gate(x)))
  std::optional<RmsNorm> q_norm, k_norm;  // over head_dim

  LayerOutput operator()(const Normed& x, const Batch& batch, int layer) const;
  template <class Visit>
  void visit_weights(const Visit& visit) const {
    for (const auto* linear : {&q, &k, &v, &o}) visit(linear->weight);
    if (gate) visit(gate->weight);
  }

 private:
  // in: queries, keys, values and, if there is one, the gate as projected -> [M, heads * D], for `o`.
  ops::MatmulInput attend(const std::vector<Tensor>& in, const Batch& batch, int layer) const;
  // The same for a batch in which a span is a tree of drafts.
  ops::MatmulInput attend_trees(const std::vector<Tensor>& in, const Batch& batch, int layer) const;
};

}  // namespace anabranch::nn
