#include "nn/attention.h"

#include "nn/attention_spans.h"
#include "ops/profile.h"

namespace anabranch::nn {
namespace {

// [M, heads * D] -> [M, heads, D].
Tensor norm_heads(const Tensor& x, const std::optional<Norm>& norm, int heads, int head_dim) {
  const int rows = x.shape(0);
  const auto normed = norm ? (*norm)(x.reshape({rows * heads, head_dim})) : x;
  return normed.reshape({rows, heads, head_dim});
}

}  // namespace

Tensor Attention::operator()(const Normed& x, const Batch& batch, int part, const Residual& residual) const {
  Device& device = x.x.device();
  const Projected in = [&] {
    const ops::Stage stage(device, "attention: norm, in-projections");
    return project_all(x);
  }();
  const ops::MatmulInput attended = [&] {
    const ops::Stage stage(device, "attention: rope, append, attend");
    return k ? attend(in, batch, part) : attend_shared(in, batch, part);
  }();
  const ops::Stage stage(device, "attention: out-projection, add");
  return add(residual, o, attended, x.adapters);
}

std::vector<const Linear*> Attention::projections() const {
  std::vector<const Linear*> layers = {&q};
  for (const auto* linear : {&k, &v, &gate})
    if (*linear) layers.push_back(&**linear);
  return layers;
}

Attention::Projected Attention::project_all(const Normed& x) const {
  const auto products = project(x, projections());
  size_t next = 0;
  Projected out{products[next++], {}, {}, {}};
  if (k) out.k = products[next++];
  if (k) out.v = v ? products[next++] : out.k;
  if (gate) out.gate = products[next++];
  if (norms_all_heads) out.q = (*q_norm)(out.q), out.k = (*k_norm)(out.k);
  if (value_dim > 0) {
    const int rows = out.v.shape(0);
    const Tensor zeros = out.v.device().zeros({rows, kv_heads, head_dim - value_dim}, Dtype::f32);
    out.v = ops::join_heads(out.v.reshape({rows, kv_heads, value_dim}), zeros).reshape(out.k.shape());
  }
  if (k && v_norm) out.v = norm_heads(out.v, v_norm, kv_heads, head_dim).reshape(out.k.shape());
  return out;
}

Tensor Attention::turn_then_norm(const Tensor& x, const Norm& norm, std::span<const int> positions,
                                 bool queries) const {
  const int rows = x.shape(0), width = x.shape(1);
  const Tensor turned = ops::rope(x.reshape({rows, width / head_dim, head_dim}), positions, rope, queries);
  return norm(turned.reshape({rows * (width / head_dim), head_dim})).reshape({rows, width});
}

ops::MatmulInput Attention::attend(const Projected& in, const Batch& batch, int part) const {
  const auto spans = spans_of_sequences(batch, part);
  const std::span<const int> positions =
      rope.axis.empty() || batch.axes.empty() ? batch.positions : batch.axes;
  const Tensor q = norms_after_rope ? turn_then_norm(in.q, *q_norm, positions, true) : in.q;
  const Tensor k_rows = norms_after_rope ? turn_then_norm(in.k, *k_norm, positions, false) : in.k;
  const bool norms_heads = q_norm && !norms_all_heads && !norms_after_rope;
  ops::Rope still;
  if (norms_after_rope) still.inv_freq.assign(rope.inv_freq.size(), 0.0f);
  ops::AttentionInputs inputs{q, k_rows, in.v};
  if (gate && !curve) inputs.gate = &in.gate;
  if (norms_heads) inputs.q_norm = &*q_norm, inputs.k_norm = &*k_norm;
  inputs.positions = norms_after_rope ? std::span<const int>(batch.positions) : positions;
  inputs.rope = norms_after_rope ? &still : &rope;
  inputs.heads = heads;
  inputs.scores = scores;
  inputs.plain = value_dim > 0 || curve;
  const auto y = ops::attend(inputs, spans);
  keep_snapshots(batch, part);
  return inputs.plain ? ops::MatmulInput(finish(y.values, in.gate)) : y;
}

Tensor Attention::finish(const Tensor& attended, const Tensor& gates) const {
  const int rows = attended.shape(0);
  Tensor y = attended;
  if (value_dim > 0)
    y = ops::cut_heads(y.reshape({rows, heads, head_dim}), value_dim).reshape({rows, heads * value_dim});
  return curve ? ops::gate_heads(y, gates, *curve) : y;
}

ops::MatmulInput Attention::attend_shared(const Projected& in, const Batch& batch, int part) const {
  const auto queries = ops::rope(norm_heads(in.q, q_norm, heads, head_dim), batch.positions, rope, true);
  std::vector<Tensor> parts;
  for (const auto& span : spans_of_sequences(batch, part))
    parts.push_back(
        ops::attention(queries.slice_rows(span.begin, span.begin + span.count), *span.kv, scores));
  const auto y = ops::concat_rows(parts).reshape({queries.shape(0), heads * head_dim});
  return gate ? ops::sigmoid_gate(y, in.gate) : y;
}

}  // namespace anabranch::nn
