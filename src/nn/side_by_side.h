#pragma once

#include "nn/attention.h"
#include "nn/recurrence.h"

namespace anabranch::nn {

// Attention and a linear recurrence side by side: both read the layer's normed input, and both add to the
// residual stream (Falcon-H1). Their parts of the states follow each other.
struct SideBySide {
  Attention attention;
  Recurrence recurrence;

  // x + attention(...) + recurrence(...). There is no norm after them. part: the attention's part of the
  // states.
  Tensor operator()(const Normed& x, const Batch& batch, int part, const Residual& residual) const {
    const Tensor h = attention(x, batch, part, residual);
    return recurrence(x, batch, part + 1, Residual(&h, nullptr));
  }
  template <class Visit>
  void visit_weights(const Visit& visit) const {
    attention.visit_weights(visit), recurrence.visit_weights(visit);
  }
  template <class Visit>
  void visit_inputs(const Visit& visit) const {
    attention.visit_inputs(visit), recurrence.visit_inputs(visit);
  }
  template <class Visit>
  void visit_copies(const Visit& visit) const {
    attention.visit_copies(visit), recurrence.visit_copies(visit);
  }
};

}  // namespace anabranch::nn
