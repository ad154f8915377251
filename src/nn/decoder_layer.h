// A layer of a decoder: immutable weights plus a call. Its mutable memory is in the SequenceState of each
// span of the batch.
#pragma once

#include <optional>
#include <variant>

#include "nn/absent.h"
#include "nn/indexed_attention.h"
#include "nn/latent_attention.h"
#include "nn/mlp_and_moe.h"
#include "nn/ngram_input.h"
#include "nn/normed_residual.h"
#include "nn/per_layer_input.h"
#include "nn/side_by_side.h"

namespace anabranch::nn {

using Mixer =
    std::variant<Attention, LatentAttention, IndexedAttention, Recurrence, ShortConv, SideBySide, Absent>;
using FeedForward = std::variant<Mlp, Moe, MlpAndMoe, Absent>;

struct DecoderLayer {
  std::optional<Norm> norm1;  // of the mixer's input
  Mixer mixer;
  std::optional<Norm> norm2;  // of the feed-forward part's input
  FeedForward mlp;
  std::optional<Norm> post1 = {}, post2 = {};  // of the outputs that are added to the residual stream
  float residual_scale = 1;                    // multiplies these outputs
  bool parallel = false;                       // both parts read the layer's input
  std::optional<NormedResidual> normed_residual = {};

  std::optional<PerLayerGate> per_layer = {};
  float scale = 1;  // of the output

  // If there, the residual stream is several streams, and nothing above is set but the mixer and the MLP.
  std::optional<HyperConnections> streams = {};
  std::optional<NGramInput> ngrams = {};  // with streams only: comes first

  // x [M, H], or [M, streams * H] -> the same. part: the (first) part of the states that the layer uses.
  // input [M, width]: for per_layer.
  Tensor operator()(const Tensor& x, const Batch& batch, int part, const Tensor* input = nullptr) const;

  // Calls visit(const ops::Weight&) for every matrix.
  template <class Visit>
  void visit_weights(const Visit& visit) const {
    std::visit([&](const auto& m) { m.visit_weights(visit); }, mixer);
    std::visit([&](const auto& m) { m.visit_weights(visit); }, mlp);
    if (per_layer) visit(per_layer->gate), visit(per_layer->projection);
    if (streams) streams->of_mixer.visit_weights(visit), streams->of_mlp.visit_weights(visit);
    if (ngrams) ngrams->visit_weights(visit);
  }
  // Calls visit(std::vector<const Linear*>) for every input of linear layers that an adapter may change, with
  // these layers.
  template <class Visit>
  void visit_inputs(const Visit& visit) const {
    std::visit([&](const auto& m) { m.visit_inputs(visit); }, mixer);
    if (const auto* dense = std::get_if<Mlp>(&mlp)) dense->visit_inputs(visit);
    if (const auto* both = std::get_if<MlpAndMoe>(&mlp)) both->mlp.visit_inputs(visit);
  }
  // visit_weights() for the copies of matrices (Linear::own_inputs).
  template <class Visit>
  void visit_copies(const Visit& visit) const {
    std::visit([&](const auto& m) { m.visit_copies(visit); }, mixer);
    if (const auto* dense = std::get_if<Mlp>(&mlp)) dense->visit_copies(visit);
  }

 private:
  Tensor run_streams(const Tensor& x, const Batch& batch, int part) const;
};

}  // namespace anabranch::nn
