#include "nn/moe.h"

#include "ops/profile.h"

namespace anabranch::nn {

Tensor Moe::operator()(const Normed& x, const Residual& residual) const {
  const ops::Stage stage(x.x.device(), "experts");
  ops::MixtureWeights w{&router, routing, {&gate, &up, &down, activation, clamped}};
  if (router_bias) w.router_bias = &*router_bias;
  if (router_norm) w.router_norm = &*router_norm;
  if (expert_scale) w.expert_scale = &*expert_scale;
  if (shared) {
    w.gate = &shared->gate, w.up = &shared->up, w.down = &shared->down;
    if (shared->output_gate) w.output_gate = &*shared->output_gate;
  }
  // The experts' down products, their sum and, without a norm behind it, x: one kernel.
  const Tensor y = ops::mixture(x.x, *x.norm, w, residual.is_fused());
  return residual.is_fused() ? y : add(residual, y);
}

uint64_t Moe::idle_bytes() const {
  const uint64_t all = gate.weight.bytes() + up.weight.bytes() + down.weight.bytes();
  return all / static_cast<uint64_t>(gate.experts) * static_cast<uint64_t>(gate.experts - routing.top_k);
}

}  // namespace anabranch::nn
