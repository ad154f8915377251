#include "nn/linear.h"

#include "ops/profile.h"

namespace anabranch::nn {

std::vector<Tensor> project(const Normed& input, std::span<const Linear* const> layers) {
  std::vector<const ops::Weight*> weights;
  for (const auto* layer : layers) weights.push_back(&layer->weight);
  auto out = ops::linear(input.x, weights, &input.norm);
  size_t i = 0;
  for (const auto* layer : layers) {
    if (layer->bias) out[i] = ops::add_bias(out[i], *layer->bias);
    i++;
  }
  return out;
}

Tensor apply(const Linear& linear, const ops::MatmulInput& y, const Tensor* residual) {
  if (!linear.share)
    return residual ? ops::linear_add(y, linear.weight, *residual) : ops::linear(y, linear.weight);
  const auto& [group, inputs, outputs] = *linear.share;
  if (linear.own_inputs && y.rows > 0 && y.rows <= ops::kFewRows)
    return group->multiply_own_inputs(y, *linear.own_inputs, residual);
  return group->gather_columns(ops::linear(group->gather_inputs(y, inputs), linear.weight), outputs,
                               residual);
}

Tensor add(const Tensor& x, const std::optional<RmsNorm>& post, const LayerOutput& output) {
  if (output.added_x) return output.y.values;
  const ops::Stage stage(x.device(), output.stage);
  if (!output.linear) return ops::add(x, post ? (*post)(output.y.values) : output.y.values);
  const auto& bias = output.linear->bias;
  if (post) {
    const auto y = apply(*output.linear, output.y);
    return ops::add(x, (*post)(bias ? ops::add_bias(y, *bias) : y));
  }
  const auto y = apply(*output.linear, output.y, &x);
  return bias ? ops::add_bias(y, *bias) : y;
}

}  // namespace anabranch::nn
