#pragma once

#include "nn/batch.h"
#include "nn/linear.h"

namespace anabranch::nn {

// Takes the place of a mixer or a feed-forward part that a layer does not have: adds nothing.
struct Absent {
  Tensor operator()(const Normed&, const Batch&, int, const Residual& residual) const { return *residual.x; }
  Tensor operator()(const Normed&, const Residual& residual) const { return *residual.x; }
  template <class Visit>
  void visit_weights(const Visit&) const {}
  template <class Visit>
  void visit_inputs(const Visit&) const {}
  template <class Visit>
  void visit_copies(const Visit&) const {}
};

}  // namespace anabranch::nn
