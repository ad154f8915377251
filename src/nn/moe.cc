#include "nn/moe.h"

#include "ops/profile.h"

namespace anabranch::nn {

Tensor Moe::operator()(const Normed& x, const Residual& residual) const {
  const ops::Stage stage(x.x.device(), "experts");
  ops::MixtureWeights w{&router, routing, {gate ? &*gate : nullptr, &up, &down, activation, clamped}};
  if (router_bias) w.router_bias = &*router_bias;
  if (router_norm) w.router_norm = &*router_norm;
  if (expert_scale) w.expert_scale = &*expert_scale;
  if (choice_bias) w.choice_bias = &*choice_bias;
  if (shared) {
    w.gate = &shared->gate, w.up = &shared->up, w.down = &shared->down;
    if (shared->output_gate) w.output_gate = &*shared->output_gate;
  }
  // The experts' down products, their sum and, if nothing else comes between, x: one kernel.
  const bool fused = residual.is_fused() && residual.x == &x.x && !shared_mlp && !latent;
  Tensor y = latent ? run_latent(x) : ops::mixture(x.x, x.norm, w, fused);
  if (shared_mlp) y = ops::add(y, (*shared_mlp)({x.x, x.norm}, Residual(nullptr, nullptr)));
  return fused ? y : add(residual, y);
}

Tensor Moe::run_latent(const Normed& x) const {
  const ops::Weight* const routers[] = {&router};
  const auto logits = ops::linear(x.x, routers, x.norm);
  const ops::Routing chosen = ops::route(logits[0], routing, expert_scale ? &*expert_scale : nullptr,
                                         choice_bias ? &*choice_bias : nullptr);
  const Linear *const in[] = {&latent->in}, *const out[] = {&latent->out};
  const Tensor inputs = project({x.x, x.norm}, in)[0];
  const Tensor y =
      ops::mix_experts(inputs, nullptr, chosen, {gate ? &*gate : nullptr, &up, &down, activation});
  return project({y}, out)[0];
}

uint64_t Moe::idle_bytes() const {
  const uint64_t all = (gate ? gate->weight.bytes() : 0) + up.weight.bytes() + down.weight.bytes();
  return all / static_cast<uint64_t>(up.experts) * static_cast<uint64_t>(up.experts - routing.top_k);
}

}  // namespace anabranch::nn
