// A layer of a decoder. It is immutable weights plus a call; its mutable memory lies in the SequenceState of
// each span of the batch.
#pragma once

#include <optional>
#include <variant>

#include "nn/attention.h"
#include "nn/gated_delta.h"
#include "nn/mlp.h"
#include "nn/moe.h"

namespace anabranch::nn {

using Mixer = std::variant<Attention, GatedDelta>;
using FeedForward = std::variant<Mlp, Moe>;

struct DecoderLayer {
  RmsNorm norm1;
  Mixer mixer;
  RmsNorm norm2;
  FeedForward mlp;
  std::optional<RmsNorm> post1 = {}, post2 = {};  // of what is added to the residual stream

  // x [M, H] -> [M, H]. `layer`: which part of the states is this layer's.
  Tensor operator()(const Tensor& x, const Batch& batch, int layer) const;

  // Calls visit(const ops::Weight&) for every matrix.
  template <class Visit>
  void visit_weights(const Visit& visit) const {
    std::visit([&](const auto& m) { m.visit_weights(visit); }, mixer);
    std::visit([&](const auto& m) { m.visit_weights(visit); }, mlp);
  }
};

}  // namespace anabranch::nn
