#pragma once

#include "nn/linear.h"

namespace anabranch::nn {

// A gated linear unit (Shazeer 2020): down(activation(gate(x)) * up(x)); or, without a gate,
// down(gelu(up(x))), down(relu(up(x))^2) or down(xielu(up(x))).
struct Mlp {
  std::optional<Linear> gate;  // [intermediate, hidden], with a bias if `up` has one
  Linear up, down;             // [intermediate, hidden], [hidden, intermediate]
  ops::Activation activation = ops::Activation::silu;
  ops::Gelu gelu = ops::Gelu::tanh;
  bool relu2 = false;                           // relu(up(x))^2 instead of gelu(up(x))
  std::optional<ops::Xielu> xielu = {};         // xielu(up(x)) instead of it
  std::optional<ops::ClampedGlu> clamped = {};  // in place of activation(gate(x)) * up(x)

  // x + post(down(...)).
  Tensor operator()(const Normed& x, const Residual& residual) const;
  template <class Visit>
  void visit_weights(const Visit& visit) const {
    if (gate) visit(gate->weight);
    visit(up.weight), visit(down.weight);
  }
  template <class Visit>
  void visit_inputs(const Visit& visit) const {
    if (gate)
      visit({&*gate, &up});
    else
      visit({&up});
    visit({&down});
  }
  template <class Visit>
  void visit_copies(const Visit& visit) const {
    if (down.own_inputs) visit(*down.own_inputs);
  }
};

}  // namespace anabranch::nn
