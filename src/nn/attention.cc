#include "nn/attention.h"

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

// The cache without its last positions.
ops::PagedKv without(ops::PagedKv kv, int last) {
  ops::kv_truncate(kv, kv.length - last);
  return kv;
}

}  // namespace

LayerOutput Attention::operator()(const Normed& x, const Batch& batch, int part) const {
  Device& device = x.x.device();
  const Projected in = [&] {
    const ops::Stage stage(device, "attention: norm, in-projections");
    return project_all(x);
  }();
  const ops::Stage stage(device, "attention: rope, append, attend");
  const auto run = batch.has_trees() ? &Attention::attend_trees
                   : k               ? &Attention::attend
                                     : &Attention::attend_shared;
  return {(this->*run)(in, batch, part), &o, "attention: out-projection, add"};
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

Tensor Attention::rotated_queries(const Tensor& x, const Batch& batch) const {
  return ops::rope(norm_heads(x, q_norm, heads, head_dim), batch.positions, rope, true);
}

Tensor Attention::rotated_keys(const Tensor& x, const Batch& batch) const {
  return ops::rope(norm_heads(x, k_norm, kv_heads, head_dim), batch.positions, rope);
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
  const auto queries = rotated_queries(in.q, batch);
  std::vector<Tensor> parts;
  for (const auto& span : spans_of_sequences(batch, part))
    parts.push_back(
        ops::attention(queries.slice_rows(span.begin, span.begin + span.count), *span.kv, scores));
  const auto y = ops::concat_rows(parts).reshape({queries.shape(0), heads * head_dim});
  return gate ? ops::sigmoid_gate(y, in.gate) : y;
}

// A tree is verified branch by branch; each branch overwrites its siblings' KV slots, so that a row finds the
// keys of its own path in the positions before it. A layer that shares another's keys and values writes them
// again, as that layer's last branch has left its own there.
ops::MatmulInput Attention::attend_trees(const Projected& in, const Batch& batch, int part) const {
  const auto queries = rotated_queries(in.q, batch);
  Tensor keys, values;
  if (k) keys = rotated_keys(in.k, batch), values = split_heads(in.v, kv_heads, head_dim);
  std::vector<Tensor> parts;
  for (size_t s = 0; s < batch.spans.size(); s++) {
    const Span& span = batch.spans[s];
    AttentionState& state = span.state->attention(part);
    const auto rows = [&](const Tensor& x, int begin, int end) {
      return x.slice_rows(span.begin + begin, span.begin + end);
    };
    const bool chain = span.parents.empty();
    // Another layer has applied all spans of the sequence already.
    int later = 0;
    for (size_t i = s + 1; i < batch.spans.size() && batch.spans[i].state == span.state; i++)
      later += batch.spans[i].count;
    if (k && !chain) {
      state.k = rows(keys, 0, span.count);
      state.v = rows(values, 0, span.count);
    }
    std::vector<int> depth(span.count);
    const int base = state.kv.length - (k || chain ? 0 : state.tree_depth);
    for (int begin = 0; begin < span.count;) {
      int end = begin + 1;
      if (chain) {
        end = span.count;
        if (k) ops::kv_append(state.kv, rows(keys, 0, end), rows(values, 0, end));
      } else {
        const int parent = span.parents[begin];
        depth[begin] = parent < 0 ? 0 : depth[parent] + 1;
        for (; end < span.count && span.parents[end] == end - 1; end++) depth[end] = depth[end - 1] + 1;
        state.kv.length = base + depth[begin];
        ops::kv_append(state.kv, state.k->slice_rows(begin, end), state.v->slice_rows(begin, end));
        state.tree_depth = depth[end - 1] + 1;
      }
      parts.push_back(
          ops::attention(rows(queries, begin, end), k ? state.kv : without(state.kv, later), scores));
      begin = end;
    }
    if (k && span.keep) span.state->snapshot_layer(part, *span.keep);
  }
  const auto y = ops::concat_rows(parts).reshape({in.q.shape(0), heads * head_dim});
  return gate ? ops::sigmoid_gate(y, in.gate) : y;
}

}  // namespace anabranch::nn
