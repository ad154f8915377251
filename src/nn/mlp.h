#pragma once

#include "nn/linear.h"

namespace anabranch::nn {

// A gated linear unit (Shazeer 2020): down(activation(gate(x)) * up(x)).
struct Mlp {
  ops::Weight gate, up;  // [intermediate, hidden]
  Linear down;           // [hidden, intermediate]
  ops::Activation activation = ops::Activation::silu;
  // [intermediate]: both or none. With biases, the products are not computed together.
  std::optional<Tensor> gate_bias = {}, up_bias = {};

  LayerOutput operator()(const Normed& x) const;
  template <class Visit>
  void visit_weights(const Visit& visit) const {
    visit(gate), visit(up), visit(down.weight);
  }
  template <class Visit>
  void visit_copies(const Visit& visit) const {
    if (down.own_inputs) visit(*down.own_inputs);
  }
};

}  // namespace anabranch::nn
