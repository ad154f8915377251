#include "nn/layers.h"

#include "ops/profile.h"

namespace anabranch::nn {

std::vector<mx::array> project(const mx::array& x, const RmsNorm& norm,
                               std::initializer_list<const Linear*> layers) {
  std::vector<const ops::Weight*> weights;
  for (const auto* layer : layers) weights.push_back(&layer->weight);
  auto out = ops::linear(x, weights, &norm);
  size_t i = 0;
  for (const auto* layer : layers) {
    if (layer->bias) out[i] = ops::add_bias(out[i], *layer->bias);
    i++;
  }
  return out;
}

mx::array project_add(const mx::array& x, const Linear& layer, const mx::array& residual) {
  const auto y = ops::linear_add(x, layer.weight, residual);
  return layer.bias ? ops::add_bias(y, *layer.bias) : y;
}

mx::array Mlp::operator()(const mx::array& x, const RmsNorm& norm) const {
  const auto hidden = [&] {
    const ops::Stage stage("mlp: norm, gate, up, swiglu");
    if (!gate.bias && !up.bias) return ops::linear_swiglu(x, gate.weight, up.weight, norm);
    const auto y = project(x, norm, {&gate, &up});
    return ops::swiglu(y[0], y[1]);
  }();
  const ops::Stage stage("mlp: down, add");
  return project_add(hidden, down, x);
}

namespace {

// [M, heads * D] -> [M, heads, D], the same memory.
mx::array split_heads(const mx::array& x, int heads, int head_dim) {
  return ops::reshape(x, {x.shape(0), heads, head_dim});
}

mx::array norm_heads(const mx::array& x, const std::optional<RmsNorm>& norm, int heads, int head_dim) {
  if (!norm) return split_heads(x, heads, head_dim);
  return ops::reshape((*norm)(ops::reshape(x, {x.shape(0) * heads, head_dim})),
                      {x.shape(0), heads, head_dim});
}

}  // namespace

mx::array Attention::operator()(const mx::array& x, const RmsNorm& norm, const Batch& batch,
                                int layer) const {
  const auto in = [&] {
    const ops::Stage stage("attention: norm, in-projections");
    return gate ? project(x, norm, {&q, &k, &v, &*gate}) : project(x, norm, {&q, &k, &v});
  }();
  const auto y = [&] {
    const ops::Stage stage("attention: rope, append, attend");
    return batch.has_trees() ? attend_trees(in, batch, layer) : attend(in, batch, layer);
  }();
  const ops::Stage stage("attention: out-projection, add");
  return project_add(y, o, x);
}

mx::array Attention::attend(const std::vector<mx::array>& in, const Batch& batch, int layer) const {
  // A sequence's spans at once: keys and values are read once, and what is kept is only shorter.
  std::vector<ops::AttentionSpan> spans;
  for (size_t i = 0; i < batch.spans.size(); i++) {
    const Span& span = batch.spans[i];
    if (i > 0 && span.state == batch.spans[i - 1].state)
      spans.back().count += span.count;
    else
      spans.push_back({&span.state->attention(layer).kv, span.begin, span.count});
  }
  ops::AttentionInputs inputs{in[0], in[1], in[2]};
  if (gate) inputs.gate = &in[3];
  if (q_norm) inputs.q_norm = &*q_norm;
  if (k_norm) inputs.k_norm = &*k_norm;
  inputs.positions = batch.positions;
  inputs.inv_freq = rope.inv_freq;
  inputs.attention_factor = rope.attention_factor;
  inputs.heads = heads;
  inputs.scale = scale;
  inputs.window = window;
  const auto y = ops::attend(inputs, spans);
  size_t at = 0;
  for (const Span& span : batch.spans) {
    if (span.begin >= spans[at].begin + spans[at].count) at++;
    const int end = spans[at].begin + spans[at].count;
    if (span.keep) span.state->snapshot_layer(layer, *span.keep, end - span.begin - span.count);
  }
  return y;
}

// A tree is a list of chains: each is written over its elder siblings, after its ancestors, so that a row
// meets its keys where they would lie had only its path been applied.
mx::array Attention::attend_trees(const std::vector<mx::array>& in, const Batch& batch, int layer) const {
  const auto turned = [&](const mx::array& x, const std::optional<RmsNorm>& head_norm, int count) {
    return ops::rope(norm_heads(x, head_norm, count, head_dim), batch.positions, rope.inv_freq,
                     rope.attention_factor);
  };
  const auto queries = turned(in[0], q_norm, heads), keys = turned(in[1], k_norm, kv_heads);
  const auto values = split_heads(in[2], kv_heads, head_dim);
  std::vector<mx::array> parts;
  for (const Span& span : batch.spans) {
    AttentionState& state = span.state->attention(layer);
    const auto rows = [&](const mx::array& x, int begin, int end) {
      return ops::slice_rows(x, span.begin + begin, span.begin + end);
    };
    std::vector<int> depth(span.count);
    const int base = state.kv.length;
    for (int begin = 0; begin < span.count;) {
      int end = begin + 1;
      if (span.parents.empty()) {
        end = span.count;
      } else {
        const int parent = span.parents[begin];
        depth[begin] = parent < 0 ? 0 : depth[parent] + 1;
        for (; end < span.count && span.parents[end] == end - 1; end++) depth[end] = depth[end - 1] + 1;
        state.kv.length = base + depth[begin];
      }
      ops::kv_append(state.kv, rows(keys, begin, end), rows(values, begin, end));
      parts.push_back(ops::attention(rows(queries, begin, end), state.kv, scale, window));
      begin = end;
    }
    if (span.keep) span.state->snapshot_layer(layer, *span.keep);
    if (span.parents.empty()) continue;
    state.k = rows(keys, 0, span.count);
    state.v = rows(values, 0, span.count);
  }
  const auto y = ops::reshape(ops::concat_rows(parts), {in[0].shape(0), heads * head_dim});
  return gate ? ops::sigmoid_gate(y, in[3]) : y;
}

mx::array GatedDelta::operator()(const mx::array& x, const RmsNorm& norm, const Batch& batch,
                                 int layer) const {
  const auto in = [&] {
    const ops::Stage stage("gated delta: norm, in-projections");
    return project(x, norm, {&qkv, &z, &b, &a});
  }();
  const auto y = [&] {
    const ops::Stage stage("gated delta: conv, gates, recurrence, norm");
    std::vector<ops::GatedDeltaSpan> spans;
    for (const Span& span : batch.spans) {
      spans.push_back(
          {&span.state->delta(layer), span.begin, span.count, span.state->on_trial(), span.parents});
      if (span.keep) spans.back().keep = &span.state->snapshot_delta(layer, *span.keep);
    }
    return ops::gated_delta_rows({in[0], in[1], in[2], in[3]}, shape, weights, spans);
  }();
  const ops::Stage stage("gated delta: out-projection, add");
  return project_add(y, out, x);
}

mx::array DecoderLayer::operator()(const mx::array& x, const Batch& batch, int layer) const {
  const auto h = std::visit([&](const auto& m) { return m(x, norm1, batch, layer); }, mixer);
  return mlp(h, norm2);
}

mx::array Mtp::operator()(const mx::array& embedding, const mx::array& hidden, const Batch& batch) const {
  const ops::Stage stage("mtp head");
  const int n = hidden.shape(0), h = hidden.shape(1);
  std::vector<int> alternate;  // rows of embedding and hidden beside each other
  for (int i = 0; i < n; i++) alternate.insert(alternate.end(), {i, n + i});
  const auto both = ops::concat_rows({norm_embedding(embedding), norm_hidden(hidden)});
  auto x = ops::linear(ops::reshape(ops::take_rows(both, alternate), {n, 2 * h}), fc.weight);
  for (size_t i = 0; i < layers.size(); i++) x = layers[i](x, batch, static_cast<int>(i));
  return norm(x);
}

}  // namespace anabranch::nn
