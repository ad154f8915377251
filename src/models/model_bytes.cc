#include "models/model_bytes.h"

#include <numeric>

namespace anabranch {
namespace {

// The sum of of(weight) over a layer's matrices.
template <class Layer, class Of>
uint64_t sum_weights(const Layer& layer, const Of& of) {
  uint64_t sum = 0;
  layer.visit_weights([&](const ops::Weight& weight) { sum += of(weight); });
  return sum;
}
uint64_t stored_bytes(const ops::Weight& weight) {
  return weight.bytes();
}
uint64_t parameters_of(const ops::Weight& weight) {
  return static_cast<uint64_t>(weight.out_features() * weight.in_features());
}
uint64_t copied_bytes(const nn::DecoderLayer& layer) {
  uint64_t sum = 0;
  layer.visit_copies([&](const ops::Weight& weight) { sum += weight.bytes(); });
  return sum;
}

}  // namespace

uint64_t ModelBytes::all() const {
  return std::accumulate(layers.begin(), layers.end(), embedding + head) + mtp + draft_head + copies;
}

ModelBytes count_bytes(const Model& model) {
  const ModelWeights& weights = model.weights();
  const Ranks& ranks = weights.ranks;
  ModelBytes out;
  out.layers.resize(ranks.layers().size());
  for (int rank = 0; rank < ranks.count(); rank++)
    for (size_t i = 0; i < ranks.layers(rank).size(); i++) {
      out.layers[i] += sum_weights(ranks.layers(rank)[i], stored_bytes);
      out.copies += copied_bytes(ranks.layers(rank)[i]);
    }
  out.embedding = model.spec().tied_embeddings ? 0 : weights.embedding.bytes();
  out.head = weights.head.weight().bytes();
  for (const ops::Weight& share : weights.head.shares()) out.copies += share.bytes();
  if (weights.head.draft_rows()) out.draft_head = weights.head.draft_rows()->bytes();
  if (weights.mtp) out.mtp = sum_weights(*weights.mtp, stored_bytes);
  return out;
}

uint64_t count_parameters(const Model& model) {
  const ModelWeights& weights = model.weights();
  uint64_t sum = parameters_of(weights.embedding) +
                 (model.spec().tied_embeddings ? 0 : parameters_of(weights.head.weight()));
  for (int rank = 0; rank < weights.ranks.count(); rank++)
    for (const auto& layer : weights.ranks.layers(rank)) sum += sum_weights(layer, parameters_of);
  return sum;
}

uint64_t bytes_per_token(const Model& model) {
  const OutputHead& head = model.weights().head;
  return layer_bytes_per_token(model) + (head.shares().empty() ? head.weight() : head.shares()[0]).bytes();
}

uint64_t layer_bytes_per_token(const Model& model) {
  uint64_t sum = 0;
  for (const auto& layer : model.weights().ranks.layers()) {
    sum += sum_weights(layer, stored_bytes);
    if (const auto* moe = std::get_if<nn::Moe>(&layer.mlp)) sum -= moe->idle_bytes();
    if (const auto* both = std::get_if<nn::MlpAndMoe>(&layer.mlp)) sum -= both->moe.idle_bytes();
    if (layer.ngrams) sum -= layer.ngrams->idle_bytes();
  }
  return sum;
}

}  // namespace anabranch
