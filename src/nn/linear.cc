#include "nn/linear.h"

#include <algorithm>

#include "ops/low_rank.h"

namespace anabranch::nn {
namespace {

const LowRank* find(const AdapterRows& rows, const Linear& layer) {
  const auto at = rows.adapter->linears.find(layer.origin.get());
  return at == rows.adapter->linears.end() ? nullptr : &at->second;
}

// Adds to each layer's output what its adapters add. The input of the layers: x, after `norm` unless it is
// null. What an adapter makes of a row that is not its own is not used.
void add_adapters(std::span<Tensor> outputs, std::span<const Linear* const> layers, const ops::MatmulInput& x,
                  const RmsNorm* norm, std::span<const AdapterRows> adapters) {
  struct Part {
    size_t output;
    const LowRank* low_rank;
    const AdapterRows* rows;
  };
  std::vector<Part> parts;
  for (size_t i = 0; i < layers.size(); i++)
    for (const AdapterRows& rows : adapters)
      if (const LowRank* low_rank = find(rows, *layers[i])) parts.push_back({i, low_rank, &rows});
  // Several sequences, or layers with parts of one module's rows, share a product.
  std::vector<const ops::Weight*> weights;
  const auto find_down = [&](const Part& part) {
    return std::ranges::find(weights, &part.low_rank->down.storage(),
                             [](const ops::Weight* weight) { return &weight->storage(); });
  };
  for (const Part& part : parts)
    if (find_down(part) == weights.end()) weights.push_back(&part.low_rank->down);
  std::vector<Tensor> products;
  for (size_t first = 0; first < weights.size(); first += ops::kMaxLinearWeights) {
    const size_t count = std::min(ops::kMaxLinearWeights, weights.size() - first);
    for (Tensor& product : ops::linear(x, std::span(weights).subspan(first, count), norm))
      products.push_back(std::move(product));
  }
  std::vector<ops::LowRankRows> sums;
  for (size_t i = 0, next = 0; i < outputs.size(); i++) {
    sums.clear();
    for (; next < parts.size() && parts[next].output == i; next++) {
      const auto& [output, low_rank, rows] = parts[next];
      const auto at = find_down(parts[next]) - weights.begin();
      sums.push_back(
          {products[static_cast<size_t>(at)], low_rank->up, rows->scale, rows->begin, rows->count});
    }
    if (!sums.empty()) ops::add_low_rank(outputs[i], sums);
  }
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

}  // namespace

bool is_adapted(const Linear& layer, std::span<const AdapterRows> adapters) {
  return std::ranges::any_of(adapters, [&](const AdapterRows& rows) { return find(rows, layer) != nullptr; });
}

std::vector<Tensor> project(const Normed& input, std::span<const Linear* const> layers) {
  std::vector<const ops::Weight*> weights;
  for (const auto* layer : layers) weights.push_back(&layer->weight);
  auto out = ops::linear(input.x, weights, &input.norm);
  if (!input.adapters.empty()) add_adapters(out, layers, input.x, &input.norm, input.adapters);
  size_t i = 0;
  for (const auto* layer : layers) {
    if (layer->bias) out[i] = ops::add_bias(out[i], *layer->bias);
    i++;
  }
  return out;
}

Tensor add(const Residual& residual, const Linear& linear, const ops::MatmulInput& y,
           std::span<const AdapterRows> adapters) {
  Tensor out = multiply(linear, y, residual.is_fused() ? residual.x : nullptr);
  const Linear* const layers[] = {&linear};
  if (!adapters.empty()) add_adapters(std::span(&out, 1), layers, y, nullptr, adapters);
  if (linear.bias) out = ops::add_bias(out, *linear.bias);
  return residual.is_fused() ? out : add(residual, out);
}

Tensor add(const Residual& residual, const Tensor& y) {
  const Tensor normed = residual.post ? (*residual.post)(y) : y;
  return residual.x ? ops::add(*residual.x, normed) : normed;
}

}  // namespace anabranch::nn
