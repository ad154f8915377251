#include "nn/layers.h"

namespace anabranch::nn {

std::vector<mx::array> project(const mx::array& x, std::initializer_list<const Linear*> layers) {
  std::vector<const ops::Weight*> weights;
  for (const auto* layer : layers) weights.push_back(&layer->weight);
  auto out = ops::linear(x, weights);
  size_t i = 0;
  for (const auto* layer : layers) {
    if (layer->bias) out[i] = ops::add_bias(out[i], *layer->bias);
    i++;
  }
  return out;
}

mx::array Mlp::operator()(const mx::array& x) const {
  const auto gate_up = project(x, {&gate, &up});
  return project(ops::swiglu(gate_up[0], gate_up[1]), {&down})[0];
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

mx::array Attention::operator()(const mx::array& x, const Batch& batch, int layer) const {
  auto qkv = gate ? project(x, {&q, &k, &v, &*gate}) : project(x, {&q, &k, &v});
  const auto queries = ops::rope(norm_heads(qkv[0], q_norm, heads, head_dim), batch.positions, rope.inv_freq,
                                 rope.attention_factor);
  const auto keys = ops::rope(norm_heads(qkv[1], k_norm, kv_heads, head_dim), batch.positions, rope.inv_freq,
                              rope.attention_factor);
  const auto values = split_heads(qkv[2], kv_heads, head_dim);

  std::vector<mx::array> parts;
  for (const auto& span : batch.spans) {
    const int end = span.begin + span.count;
    auto& kv = span.state->kv(layer);
    ops::kv_append(kv, ops::slice_rows(keys, span.begin, end), ops::slice_rows(values, span.begin, end));
    parts.push_back(ops::attention(ops::slice_rows(queries, span.begin, end), kv, scale, window));
  }
  auto y = ops::reshape(ops::concat_rows(parts), {x.shape(0), heads * head_dim});
  if (gate) y = ops::sigmoid_gate(y, qkv[3]);
  return project(y, {&o})[0];
}

mx::array GatedDelta::operator()(const mx::array& x, const Batch& batch, int layer) const {
  const auto in = project(x, {&qkv, &z, &b, &a});
  std::vector<mx::array> parts;
  for (const auto& span : batch.spans) {
    const int end = span.begin + span.count;
    const auto rows = [&](int i) { return ops::slice_rows(in[i], span.begin, end); };
    parts.push_back(
        ops::gated_delta(rows(0), rows(1), rows(2), rows(3), shape, weights, span.state->delta(layer)));
  }
  return project(ops::concat_rows(parts), {&out})[0];
}

mx::array DecoderLayer::operator()(const mx::array& x, const Batch& batch, int layer) const {
  const auto mixed = std::visit([&](const auto& m) { return m(norm1(x), batch, layer); }, mixer);
  const auto h = ops::add(x, mixed);
  return ops::add(h, mlp(norm2(h)));
}

}  // namespace anabranch::nn
