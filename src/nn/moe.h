#pragma once

#include <optional>

#include "nn/linear.h"
#include "ops/experts.h"

namespace anabranch::nn {

// A mixture of experts instead of one SwiGLU (Shazeer et al. 2017): each row is processed by top_k of the
// experts, and by the shared expert if there is one.
struct Moe {
  // The expert that every row uses; its output is multiplied by sigmoid(x . output_gate).
  struct Shared {
    ops::Weight gate, up, down;                   // [intermediate, H], [intermediate, H], [H, intermediate]
    std::optional<ops::Weight> output_gate = {};  // [1, H]
  };

  ops::RouterSpec routing;
  ops::Weight router;  // [experts, H]
  ops::ExpertMatrices gate, up, down;
  std::optional<Shared> shared = {};
  ops::Activation activation = ops::Activation::silu;  // for all experts
  std::optional<Norm> router_norm = {};     // for the router's input, if it differs from the experts' input
  std::optional<Tensor> expert_scale = {};  // [experts]: multiplies the weight of each expert
  std::optional<Tensor> router_bias = {};   // [experts]: added to the router's logits
  std::optional<ops::ClampedGlu> clamped = {};  // in place of activation(gate) * up, of the routed experts

  // x + post(the weighted sum of the experts' outputs). x has a norm.
  Tensor operator()(const Normed& x, const Residual& residual) const;
  template <class Visit>
  void visit_weights(const Visit& visit) const {
    visit(router), visit(gate.weight), visit(up.weight), visit(down.weight);
    if (!shared) return;
    visit(shared->gate), visit(shared->up), visit(shared->down);
    if (shared->output_gate) visit(*shared->output_gate);
  }
  // Bytes of the experts that a single row does not use.
  uint64_t idle_bytes() const;
};

}  // namespace anabranch::nn
