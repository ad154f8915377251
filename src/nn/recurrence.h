#pragma once

#include "nn/batch.h"
#include "nn/linear.h"

namespace anabranch::nn {

// A linear recurrence (ops/recurrence.h) between its projections.
struct Recurrence {
  ops::RecurrenceShape shape;
  ops::RecurrenceWeights weights;
  Linear qkv, z;               // [C, H], [Hv * Dv, H]
  std::optional<Linear> b, a;  // [Hv, H] x2, if the rule needs them
  Linear out;                  // [H, Hv * Dv]

  // x + post(out(recurrence(...))). part: the part of the states that the layer uses.
  Tensor operator()(const Normed& x, const Batch& batch, int part, const Residual& residual) const;
  template <class Visit>
  void visit_weights(const Visit& visit) const {
    for (const Linear* linear : projections()) visit(linear->weight);
    visit(out.weight);
  }
  template <class Visit>
  void visit_inputs(const Visit& visit) const {
    visit(projections()), visit({&out});
  }
  template <class Visit>
  void visit_copies(const Visit& visit) const {
    if (out.own_inputs) visit(*out.own_inputs);
  }

 private:
  // qkv, z, and those of b and a that there are.
  std::vector<const Linear*> projections() const;
};

// A short convolution (ops/recurrence.h) between its projections.
struct ShortConv {
  ops::RecurrenceShape shape;
  ops::ShortConvWeights weights;
  Linear in, out;  // [3 C, H], [H, C]

  // x + post(out(short_conv(in(x)))). part: the part of the states that the layer uses.
  Tensor operator()(const Normed& x, const Batch& batch, int part, const Residual& residual) const;
  template <class Visit>
  void visit_weights(const Visit& visit) const {
    visit(in.weight), visit(out.weight);
  }
  template <class Visit>
  void visit_inputs(const Visit& visit) const {
    visit({&in}), visit({&out});
  }
  template <class Visit>
  void visit_copies(const Visit& visit) const {
    if (out.own_inputs) visit(*out.own_inputs);
  }
};

}  // namespace anabranch::nn
