#include "nn/latent_attention.h"

#include "nn/attention_spans.h"
#include "ops/profile.h"

namespace anabranch::nn {

Tensor LatentAttention::operator()(const Normed& x, const Batch& batch, int part,
                                   const Residual& residual) const {
  Device& device = x.x.device();
  const Projected in = [&] {
    const ops::Stage stage(device, "attention: norm, in-projections");
    return project_all(x, batch);
  }();
  const Tensor attended = [&] {
    const ops::Stage stage(device, "attention: rope, append, attend");
    return attend(in, batch, part);
  }();
  const ops::Stage stage(device, "attention: out-projection, add");
  return add(residual, o, attended, x.adapters);
}

std::vector<const Linear*> LatentAttention::of_x() const {
  std::vector<const Linear*> layers = {&k_turned, &latent};
  if (q_in)
    layers.push_back(&*q_in);
  else
    layers.insert(layers.end(), {&q_turned, &q_plain});
  if (gate) layers.push_back(&*gate);
  return layers;
}

Tensor LatentAttention::queries(const Tensor& turned, const Tensor& plain, const Batch& batch) const {
  const int rows = turned.shape(0);
  Tensor scaled = plain;
  if (rope.query_beta != 0) {
    ops::Rope still = rope;
    still.inv_freq.assign(static_cast<size_t>(plain_dim / 2), 0.0f);
    still.attention_factor = 1;
    scaled = ops::rope(plain.reshape({rows, heads, plain_dim}), batch.positions, still, true)
                 .reshape({rows, heads * plain_dim});
  }
  return ops::join_heads(ops::rope(turned.reshape({rows, heads, turned_dim}), batch.positions, rope, true),
                         ops::linear_heads(scaled, keys).reshape({rows, heads, rank}));
}

LatentAttention::Projected LatentAttention::project_all(const Normed& x, const Batch& batch) const {
  const auto of_input = project(x, of_x());
  const int rows = x.x.shape(0);
  const Tensor turned = ops::rope(of_input[0].reshape({rows, 1, turned_dim}), batch.positions, rope, false);
  const Tensor k = ops::join_heads(turned, latent_norm(of_input[1]).reshape({rows, 1, rank}));
  const Tensor gates = gate ? of_input.back() : Tensor();
  if (!q_in) return {queries(of_input[2], of_input[3], batch), k, gates};
  const Linear* const layers[] = {&q_turned, &q_plain};
  const auto q = project({of_input[2], &*q_norm, x.adapters}, layers);
  return {queries(q[0], q[1], batch), k, gates};
}

Tensor LatentAttention::attend(const Projected& in, const Batch& batch, int part) const {
  std::vector<Tensor> parts;
  for (const auto& span : spans_of_sequences(batch, part)) {
    const int end = span.begin + span.count;
    ops::kv_append(*span.kv, in.k.slice_rows(span.begin, end), Tensor());
    parts.push_back(ops::attention(in.q.slice_rows(span.begin, end), *span.kv, scores, span.whole));
  }
  keep_snapshots(batch, part);
  const Tensor y = ops::linear_heads(ops::concat_rows(parts).reshape({in.q.shape(0), heads * rank}), values);
  return gate ? ops::sigmoid_gate(y, ops::linear_heads(in.gate, *ones)) : y;
}

}  // namespace anabranch::nn
