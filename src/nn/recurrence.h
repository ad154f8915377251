#pragma once

#include "nn/batch.h"
#include "nn/linear.h"

namespace anabranch::nn {

// The spans of a batch for the recurrent part `part` of the states.
std::vector<ops::RecurrenceSpan> recurrence_spans(const Batch& batch, int part);

// A linear recurrence (ops/recurrence.h) between its projections.
struct Recurrence {
  ops::RecurrenceShape shape;
  ops::RecurrenceWeights weights;
  Linear qkv, z;               // [C, H], [Hv * Dv, H]
  std::optional<Linear> b, a;  // [Hv, H], and [Hv, H] or [Hv * Dk, H], if the rule needs them
  Linear out;                  // [H, Hv * Dv]
  // [rank, H]: if there, z and a are projections of its output, and not of the layer's input.
  std::optional<Linear> z_low = {}, a_low = {};

  // x + post(out(recurrence(...))). part: the part of the states that the layer uses.
  Tensor operator()(const Normed& x, const Batch& batch, int part, const Residual& residual) const;
  template <class Visit>
  void visit_weights(const Visit& visit) const {
    for (const Linear* linear : projections()) visit(linear->weight);
    for (const Linear* linear : after_low()) visit(linear->weight);
    visit(out.weight);
  }
  template <class Visit>
  void visit_inputs(const Visit& visit) const {
    visit(projections());
    for (const Linear* linear : after_low()) visit({linear});
    visit({&out});
  }
  template <class Visit>
  void visit_copies(const Visit& visit) const {
    if (out.own_inputs) visit(*out.own_inputs);
  }

 private:
  // Those of the layer's input: qkv, z or z_low, and those of b, and of a or a_low, that there are.
  std::vector<const Linear*> projections() const;
  // Those of z and a whose input is not the layer's.
  std::vector<const Linear*> after_low() const;
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
