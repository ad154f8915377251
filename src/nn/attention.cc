#include "nn/attention.h"

#include "ops/attention.h"
#include "ops/profile.h"

namespace anabranch::nn {
namespace {

// [M, heads * D] -> [M, heads, D], the same memory.
Tensor split_heads(const Tensor& x, int heads, int head_dim) {
  return x.reshape({x.shape(0), heads, head_dim});
}

Tensor norm_heads(const Tensor& x, const std::optional<RmsNorm>& norm, int heads, int head_dim) {
  if (!norm) return split_heads(x, heads, head_dim);
  return (*norm)(x.reshape({x.shape(0) * heads, head_dim})).reshape({x.shape(0), heads, head_dim});
}

}  // namespace

LayerOutput Attention::operator()(const Normed& x, const Batch& batch, int layer) const {
  Device& device = x.x.device();
  const auto in = [&] {
    const ops::Stage stage(device, "attention: norm, in-projections");
    return gate ? project(x, {&q, &k, &v, &*gate}) : project(x, {&q, &k, &v});
  }();
  const ops::Stage stage(device, "attention: rope, append, attend");
  return {batch.has_trees() ? attend_trees(in, batch, layer) : attend(in, batch, layer), &o,
          "attention: out-projection, add"};
}

ops::MatmulInput Attention::attend(const std::vector<Tensor>& in, const Batch& batch, int layer) const {
  // All spans of a sequence at once: keys and values are read once, and a snapshot between them only has a
  // shorter length.
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

// A tree is verified branch by branch; each branch overwrites its siblings' KV slots, so that a row finds the
// keys of its own path in the positions before it.
ops::MatmulInput Attention::attend_trees(const std::vector<Tensor>& in, const Batch& batch, int layer) const {
  const auto rotated = [&](const Tensor& x, const std::optional<RmsNorm>& head_norm, int count) {
    return ops::rope(norm_heads(x, head_norm, count, head_dim), batch.positions, rope.inv_freq,
                     rope.attention_factor);
  };
  const auto queries = rotated(in[0], q_norm, heads), keys = rotated(in[1], k_norm, kv_heads);
  const auto values = split_heads(in[2], kv_heads, head_dim);
  std::vector<Tensor> parts;
  for (const Span& span : batch.spans) {
    AttentionState& state = span.state->attention(layer);
    const auto rows = [&](const Tensor& x, int begin, int end) {
      return x.slice_rows(span.begin + begin, span.begin + end);
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
  const auto y = ops::concat_rows(parts).reshape({in[0].shape(0), heads * head_dim});
  return gate ? ops::sigmoid_gate(y, in[3]) : y;
}

}  // namespace anabranch::nn
