#pragma once

#include "nn/linear.h"

namespace anabranch::nn {

// SwiGLU (Shazeer 2020): down(silu(gate(x)) * up(x)).
struct Mlp {
  ops::Weight gate, up;  // [intermediate, hidden]
  Linear down;           // [hidden, intermediate]

  LayerOutput operator()(const Normed& x) const;
  template <class Visit>
  void visit_weights(const Visit& visit) const {
    visit(gate), visit(up), visit(down.weight);
  }
};

}  // namespace anabranch::nn
