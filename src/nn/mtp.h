#pragma once

#include <vector>

#include "nn/decoder_layer.h"

namespace anabranch::nn {

// Qwen3.5's multi-token-prediction head: from the hidden state of a position and the token after it, predicts
// the model's hidden state at the next position, after the final norm.
struct Mtp {
  Norm norm_embedding, norm_hidden;
  Linear fc;  // [H, 2 H], of (embedding, hidden)
  std::vector<DecoderLayer> layers;
  Norm norm;

  // embedding [n, H]: embeddings of the tokens that follow the positions of hidden [n, H]. The batch's states
  // hold the layers' keys and values.
  Tensor operator()(const Tensor& embedding, const Tensor& hidden, const Batch& batch) const;
  template <class Visit>
  void visit_weights(const Visit& visit) const {
    visit(fc.weight);
    for (const DecoderLayer& layer : layers) layer.visit_weights(visit);
  }
};

}  // namespace anabranch::nn
