#pragma once

#include "nn/attention.h"
#include "ops/indexed_attention.h"

namespace anabranch::nn {

// Attention over the positions that an index chooses (ops/indexed_attention.h; Qwen4-Exp). The index's keys
// follow the attention's keys and values in the parts of the states.
struct IndexedAttention {
  Attention attention;  // with norms of each head before the rotation
  int index_heads = 0, index_dim = 0;
  int ratio = 1, blocks = 1;  // see ops::IndexSpec
  Linear index_q, index_k;    // [index_heads * index_dim, H], [index_dim, H]
  Norm index_q_norm, index_k_norm;

  // As Attention. part: the attention's part of the states.
  Tensor operator()(const Normed& x, const Batch& batch, int part, const Residual& residual) const;
  template <class Visit>
  void visit_weights(const Visit& visit) const {
    attention.visit_weights(visit), visit(index_q.weight), visit(index_k.weight);
  }
  template <class Visit>
  void visit_inputs(const Visit& visit) const {
    visit(projections()), visit(std::vector<const Linear*>{&attention.o});
  }
  template <class Visit>
  void visit_copies(const Visit& visit) const {
    attention.visit_copies(visit);
  }

 private:
  // Those of x: q, k, v and the index's, and the gate if there is one.
  std::vector<const Linear*> projections() const;
  // The projections of x -> [M, heads * D], for attention.o.
  Tensor attend(std::span<const Tensor> in, const Batch& batch, int part) const;
};

}  // namespace anabranch::nn
