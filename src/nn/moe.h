#pragma once

#include <optional>

#include "nn/mlp.h"
#include "ops/experts.h"

namespace anabranch::nn {

// A mixture of experts instead of one SwiGLU (Shazeer et al. 2017): each row is processed by top_k of the
// experts, and by the shared expert if there is one.
struct Moe {
  // An expert that every row uses. With an output_gate, its output is multiplied by sigmoid(x . output_gate).
  struct Shared {
    ops::Weight gate, up, down;                   // [intermediate, H], [intermediate, H], [H, intermediate]
    std::optional<ops::Weight> output_gate = {};  // [1, H]
  };

  // Experts work on in(x) of fewer values, and out maps their sum back (Nemotron 3 Super).
  struct Latent {
    Linear in, out;
  };

  ops::RouterSpec routing;
  ops::Weight router;                       // [experts, H]
  std::optional<ops::ExpertMatrices> gate;  // without it experts are down(relu(up(x))^2)
  ops::ExpertMatrices up, down;
  std::optional<Shared> shared = {};
  std::optional<Mlp> shared_mlp = {};  // in place of `shared`, if it has biases, a clamped unit or no gate
  std::optional<Latent> latent = {};
  ops::Activation activation = ops::Activation::silu;  // for all experts
  std::optional<Norm> router_norm = {};     // for the router's input, if it differs from the experts' input
  std::optional<Tensor> expert_scale = {};  // [experts]: multiplies the weight of each expert
  std::optional<Tensor> choice_bias = {};   // [experts]: see ops::route()
  std::optional<Tensor> router_bias = {};   // [experts]: added to the router's logits
  std::optional<ops::ClampedGlu> clamped = {};  // in place of activation(gate) * up, of the routed experts

  // x + post(the weighted sum of the experts' outputs). x has a norm.
  Tensor operator()(const Normed& x, const Residual& residual) const;
  template <class Visit>
  void visit_weights(const Visit& visit) const {
    visit(router), visit(up.weight), visit(down.weight);
    if (gate) visit(gate->weight);
    if (latent) visit(latent->in.weight), visit(latent->out.weight);
    if (shared_mlp) shared_mlp->visit_weights(visit);
    if (!shared) return;
    visit(shared->gate), visit(shared->up), visit(shared->down);
    if (shared->output_gate) visit(*shared->output_gate);
  }
  // Bytes of the experts that a single row does not use.
  uint64_t idle_bytes() const;

 private:
  Tensor run_latent(const Normed& x) const;
};

}  // namespace anabranch::nn
