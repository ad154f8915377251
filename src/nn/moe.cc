#include "nn/moe.h"

#include <array>

#include "ops/profile.h"

namespace anabranch::nn {

LayerOutput Moe::operator()(const Normed& x) const {
  const ops::Stage stage(x.x.device(), "experts: norm, route, gate, up, activation, down");
  const bool gated = shared && shared->output_gate;
  const std::array<const ops::Weight*, 2> weights = {&router, gated ? &*shared->output_gate : nullptr};
  const auto logits =
      ops::linear(x.x, std::span(weights.data(), gated ? 2 : 1), router_norm ? &*router_norm : &x.norm);
  const ops::Routing chosen = ops::route(logits[0], routing, expert_scale ? &*expert_scale : nullptr);
  const ops::Experts experts{&gate, &up, &down, activation};
  if (!shared) return {ops::mix_experts(x.x, x.norm, chosen, experts), nullptr, "experts: add"};
  const ops::SharedExpert always{&shared->gate, &shared->up, &shared->down, gated ? &logits[1] : nullptr};
  return {ops::mix_experts(x.x, x.norm, chosen, experts, &always), nullptr, "experts: add"};
}

uint64_t Moe::idle_bytes() const {
  const uint64_t all = gate.weight.bytes() + up.weight.bytes() + down.weight.bytes();
  return all / static_cast<uint64_t>(gate.experts) * static_cast<uint64_t>(gate.experts - routing.top_k);
}

}  // namespace anabranch::nn
