#include "nn/attention.h"

#include "ops/profile.h"

namespace anabranch::nn {
namespace {

// [M, heads * D] -> [M, heads, D].
Tensor norm_heads(const Tensor& x, const std::optional<RmsNorm>& norm, int heads, int head_dim) {
  const int rows = x.shape(0);
  const auto normed = norm ? (*norm)(x.reshape({rows * heads, head_dim})) : x;
  return normed.reshape({rows, heads, head_dim});
}

// All spans of a sequence as one: keys and values are read once, and a snapshot between them only has a
// shorter length.
std::vector<ops::AttentionSpan> spans_of_sequences(const Batch& batch, int part) {
  std::vector<ops::AttentionSpan> spans;
  for (size_t i = 0; i < batch.spans.size(); i++) {
    const Span& span = batch.spans[i];
    if (i > 0 && span.state == batch.spans[i - 1].state)
      spans.back().count += span.count;
    else
      spans.push_back({&span.state->attention(part).kv, span.begin, span.count});
  }
  return spans;
}

}  // namespace

LayerOutput Attention::operator()(const Normed& x, const Batch& batch, int part) const {
  Device& device = x.x.device();
  const Projected in = [&] {
    const ops::Stage stage(device, "attention: norm, in-projections");
    return project_all(x);
  }();
  const ops::Stage stage(device, "attention: rope, append, attend");
  return {k ? attend(in, batch, part) : attend_shared(in, batch, part), &o, "attention: out-projection, add"};
}

Attention::Projected Attention::project_all(const Normed& x) const {
  std::vector<const Linear*> layers = {&q};
  for (const auto* linear : {&k, &v, &gate})
    if (*linear) layers.push_back(&**linear);
  const auto products = project(x, layers);
  size_t next = 0;
  Projected out{products[next++], {}, {}, {}};
  if (k) out.k = products[next++];
  if (k) out.v = v ? products[next++] : out.k;
  if (gate) out.gate = products[next++];
  if (k && v_norm) out.v = norm_heads(out.v, v_norm, kv_heads, head_dim).reshape(out.k.shape());
  return out;
}

ops::MatmulInput Attention::attend(const Projected& in, const Batch& batch, int part) const {
  const auto spans = spans_of_sequences(batch, part);
  ops::AttentionInputs inputs{in.q, in.k, in.v};
  if (gate) inputs.gate = &in.gate;
  if (q_norm) inputs.q_norm = &*q_norm;
  if (k_norm) inputs.k_norm = &*k_norm;
  inputs.positions = batch.positions;
  inputs.rope = &rope;
  inputs.heads = heads;
  inputs.scores = scores;
  const auto y = ops::attend(inputs, spans);
  size_t at = 0;
  for (const Span& span : batch.spans) {
    if (span.begin >= spans[at].begin + spans[at].count) at++;
    const int end = spans[at].begin + spans[at].count;
    if (span.keep) span.state->snapshot_layer(part, *span.keep, end - span.begin - span.count);
  }
  return y;
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
