#pragma once

#include "nn/batch.h"
#include "nn/linear.h"

namespace anabranch::nn {

// Gated DeltaNet (ops/gated_delta.h) between its projections.
struct GatedDelta {
  ops::GatedDeltaShape shape;
  ops::GatedDeltaWeights weights;
  Linear qkv, z, b, a, out;  // [C, H], [Hv * Dv, H], [Hv, H] x2, [H, Hv * Dv]

  // x + post(out(gated delta(...))). part: the part of the states that the layer uses.
  Tensor operator()(const Normed& x, const Batch& batch, int part, const Residual& residual) const;
  template <class Visit>
  void visit_weights(const Visit& visit) const {
    for (const auto* linear : {&qkv, &z, &b, &a, &out}) visit(linear->weight);
  }
  template <class Visit>
  void visit_inputs(const Visit& visit) const {
    visit({&qkv, &z, &b, &a}), visit({&out});
  }
  template <class Visit>
  void visit_copies(const Visit& visit) const {
    if (out.own_inputs) visit(*out.own_inputs);
  }
};

}  // namespace anabranch::nn
