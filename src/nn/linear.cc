#include "nn/linear.h"

#include <algorithm>

#include "base/check.h"
#include "ops/low_rank.h"

namespace anabranch::nn {
namespace {

const LowRank* find(const AdapterRows& rows, const Linear& layer) {
  const auto at = rows.adapter->linears.find(layer.origin.get());
  return at == rows.adapter->linears.end() ? nullptr : &at->second;
}

bool is_adapted(const Linear& layer, std::span<const AdapterRows> adapters) {
  return std::ranges::any_of(adapters, [&](const AdapterRows& rows) { return find(rows, layer) != nullptr; });
}

// The rows of an adapter after the down-projections of all layers with one input.
struct DownRows {
  const AdapterRows* rows;
  Tensor z;
};

// Multiplies each adapter's own rows of x. Called before the layers' own products, which on a card begin to
// load their weights meanwhile.
std::vector<DownRows> project_down(const ops::MatmulInput& x, std::span<const Linear* const> layers,
                                   std::span<const AdapterRows> adapters) {
  std::vector<DownRows> all;
  std::vector<ops::LowRankDown> parts;
  for (const AdapterRows& rows : adapters) {
    const LowRank* first = nullptr;
    for (const Linear* layer : layers) {
      const LowRank* low_rank = find(rows, *layer);
      if (!low_rank) continue;
      CHECK(!first || &first->down.storage() == &low_rank->down.storage(),
            "layers with one input have down-projections of their own");
      first = low_rank;
    }
    if (!first) continue;
    all.push_back({&rows, {}});
    parts.push_back({&first->down, rows.begin, rows.count});
  }
  if (parts.empty()) return all;
  auto z = ops::low_rank_down(x, parts);
  for (size_t i = 0; i < z.size(); i++) all[i].z = std::move(z[i]);
  return all;
}

// The layers' products, and what adapters add to them.
std::vector<ops::LowRankProduct> with_adapters(const ops::MatmulInput& x,
                                               std::span<const Linear* const> layers,
                                               std::span<const AdapterRows> adapters) {
  const auto downs = project_down(x, layers, adapters);
  std::vector<ops::LowRankProduct> products;
  for (const Linear* layer : layers) {
    CHECK(!layer->share, "an adapted layer is split among devices");
    auto& [weight, parts] = products.emplace_back();
    weight = &layer->weight;
    for (const auto& [rows, z] : downs)
      if (const LowRank* low_rank = find(*rows, *layer))
        parts.push_back({z, low_rank->up, rows->scale, rows->begin, rows->count, low_rank->first});
  }
  return products;
}

// The products of an input with several matrices, with what adapters add to them.
std::vector<Tensor> multiply(const Normed& input, std::span<const Linear* const> layers) {
  if (std::ranges::any_of(layers, [&](const Linear* layer) { return is_adapted(*layer, input.adapters); })) {
    const ops::MatmulInput x = ops::pack(input.x, input.norm);
    return ops::linear_low_rank(x, with_adapters(x, layers, input.adapters));
  }
  std::vector<const ops::Weight*> weights;
  for (const auto* layer : layers) weights.push_back(&layer->weight);
  return ops::linear(input.x, weights, input.norm);
}

Tensor multiply(const Linear& linear, const ops::MatmulInput& y, const Tensor* residual) {
  if (!linear.share)
    return residual ? ops::linear_add(y, linear.weight, *residual) : ops::linear(y, linear.weight);
  const auto& [group, inputs, outputs] = *linear.share;
  if (linear.own_inputs && y.rows > 0 && y.rows <= ops::kFewRows)
    return group->multiply_own_inputs(y, *linear.own_inputs, residual);
  return group->gather_columns(ops::linear(group->gather_inputs(y, inputs), linear.weight), outputs,
                               residual);
}

// All outputs of linear(y), without the bias; plus residual unless it is null; then what the adapters add.
Tensor apply(const Linear& linear, const ops::MatmulInput& y, const Tensor* residual,
             std::span<const AdapterRows> adapters) {
  if (!is_adapted(linear, adapters)) return multiply(linear, y, residual);
  const Linear* const layers[] = {&linear};
  const ops::MatmulInput x = ops::pack(y);
  return ops::linear_low_rank(x, with_adapters(x, layers, adapters), residual).front();
}

Tensor scaled_with_bias(const Linear& linear, Tensor product) {
  if (linear.scale != 1) product = ops::scale(product, linear.scale);
  return linear.bias ? ops::add_bias(product, *linear.bias) : product;
}

}  // namespace

std::vector<Tensor> project(const Normed& input, std::span<const Linear* const> layers) {
  std::vector<Tensor> out = multiply(input, layers);
  for (size_t i = 0; i < layers.size(); i++) out[i] = scaled_with_bias(*layers[i], std::move(out[i]));
  return out;
}

ops::MatmulInput project_glu(const Normed& input, const Linear& gate, const Linear& up,
                             ops::Activation activation) {
  const Linear* const both[] = {&gate, &up};
  if (gate.bias || !input.norm || gate.scale != 1 || up.scale != 1) {
    const auto y = project(input, both);
    return ops::swiglu(y[0], y[1], activation);
  }
  if (!is_adapted(gate, input.adapters) && !is_adapted(up, input.adapters))
    return ops::linear_swiglu(input.x, gate.weight, up.weight, *input.norm, activation);
  const ops::MatmulInput x = ops::pack(input.x, input.norm);
  auto products = with_adapters(x, both, input.adapters);
  return ops::linear_low_rank_swiglu(x, std::move(products[0]), std::move(products[1]), activation);
}

Tensor add(const Residual& residual, const Linear& linear, const ops::MatmulInput& y,
           std::span<const AdapterRows> adapters) {
  const bool fused = residual.is_fused() && linear.scale == 1;
  const Tensor out = scaled_with_bias(linear, apply(linear, y, fused ? residual.x : nullptr, adapters));
  return fused ? out : add(residual, out);
}

Tensor add(const Residual& residual, const Tensor& y) {
  const Tensor normed = residual.post ? (*residual.post)(y) : y;
  const Tensor out = residual.scale == 1 ? normed : ops::scale(normed, residual.scale);
  return residual.x ? ops::add(*residual.x, out) : out;
}

}  // namespace anabranch::nn
