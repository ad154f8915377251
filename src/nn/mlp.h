#pragma once

#include "nn/linear.h"

namespace anabranch::nn {

// A gated linear unit (Shazeer 2020): down(activation(gate(x)) * up(x)).
struct Mlp {
  Linear gate, up;  // [intermediate, hidden]; both have a bias or none
  Linear down;      // [hidden, intermediate]
  ops::Activation activation = ops::Activation::silu;

  // x + post(down(...)).
  Tensor operator()(const Normed& x, const Residual& residual) const;
  template <class Visit>
  void visit_weights(const Visit& visit) const {
    visit(gate.weight), visit(up.weight), visit(down.weight);
  }
  template <class Visit>
  void visit_inputs(const Visit& visit) const {
    visit({&gate, &up}), visit({&down});
  }
  template <class Visit>
  void visit_copies(const Visit& visit) const {
    if (down.own_inputs) visit(*down.own_inputs);
  }
};

}  // namespace anabranch::nn
