#include "nn/indexed_attention.h"

#include "nn/attention_spans.h"
#include "ops/profile.h"

namespace anabranch::nn {

std::vector<const Linear*> IndexedAttention::projections() const {
  std::vector<const Linear*> layers = {&attention.q, &*attention.k, &*attention.v, &index_q, &index_k};
  if (attention.gate) layers.push_back(&*attention.gate);
  return layers;
}

Tensor IndexedAttention::operator()(const Normed& x, const Batch& batch, int part,
                                    const Residual& residual) const {
  Device& device = x.x.device();
  const auto in = [&] {
    const ops::Stage stage(device, "attention: norm, in-projections");
    return project(x, projections());
  }();
  const Tensor attended = [&] {
    const ops::Stage stage(device, "attention: rope, append, choose, attend");
    return attend(in, batch, part);
  }();
  const ops::Stage stage(device, "attention: out-projection, add");
  return add(residual, attention.o, attended, x.adapters);
}

Tensor IndexedAttention::attend(std::span<const Tensor> in, const Batch& batch, int part) const {
  const Attention& a = attention;
  const int rows = in[0].shape(0);
  const auto turned = [&](const Tensor& x, const Norm& norm, int heads, int dim, bool queries) {
    const Tensor normed = norm(x.reshape({rows * heads, dim}));
    return ops::rope(normed.reshape({rows, heads, dim}), batch.positions, a.rope, queries);
  };
  const Tensor q = turned(in[0], *a.q_norm, a.heads, a.head_dim, true),
               k = turned(in[1], *a.k_norm, a.kv_heads, a.head_dim, false),
               v = in[2].reshape({rows, a.kv_heads, a.head_dim}),
               index_queries = turned(in[3], index_q_norm, index_heads, index_dim, true),
               index_keys = in[4].reshape({rows, 1, index_dim});
  const ops::IndexSpec spec{ratio, blocks, &index_k_norm, &a.rope};
  const auto spans = spans_of_sequences(batch, part), of_index = spans_of_sequences(batch, part + 1);
  std::vector<Tensor> parts;
  for (size_t i = 0; i < spans.size(); i++) {
    ops::PagedKv &kv = *spans[i].kv, &keys = *of_index[i].kv;
    const int begin = spans[i].begin, end = begin + spans[i].count;
    ops::kv_append(kv, k.slice_rows(begin, end), v.slice_rows(begin, end));
    ops::kv_append(keys, index_keys.slice_rows(begin, end), Tensor());
    parts.push_back(ops::indexed_attention(q.slice_rows(begin, end), kv, index_queries.slice_rows(begin, end),
                                           keys, spec, a.scores));
  }
  keep_snapshots(batch, part), keep_snapshots(batch, part + 1);
  const Tensor y = ops::concat_rows(parts).reshape({rows, a.heads * a.head_dim});
  return a.gate ? ops::sigmoid_gate(y, in[5]) : y;
}

}  // namespace anabranch::nn
