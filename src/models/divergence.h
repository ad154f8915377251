// How far a model's predictions are from those of the original that it was made from.
//
// At each position of a text both models give a distribution over the vocabulary. The divergence there is
// Kullback and Leibler's, KL(original || model) = sum of p * (log p - log q) over all tokens, in nats: 0 when
// the distributions are equal. Probabilities are computed in double from the models' fp32 logits.
#pragma once

#include "models/perplexity.h"

namespace anabranch {

// One position of the text.
struct ComparedPrediction {
  Prediction original, model;  // of the same token
  double divergence = 0;       // nats
};

struct Comparison {
  Likelihood original, model;
  std::vector<double> divergences;  // one per predicted token, nats
  int64_t same_top = 0;             // number of tokens for which both models find the same token most likely

  // Precondition of all functions: at least one token was predicted.
  double mean_divergence() const;
  // The smallest value that is not exceeded by at least this share (0 to 1) of the divergences.
  double divergence_quantile(double share) const;
  double same_top_share() const;

  void add(const ComparedPrediction& prediction);
  void add(const Comparison& other);
};

using AfterComparedWindow = std::function<void(size_t done, std::span<const ComparedPrediction> predictions)>;

// Both models read the same windows (measure_likelihood in models/perplexity.h), a bounded number of tokens
// at a time. Precondition: both have the same vocabulary, and all `tokens` belong to it.
Comparison compare_models(const Model& original, const Model& model, std::span<const int> tokens, int window,
                          std::optional<int> bos = {}, const AfterComparedWindow& after_window = {});

}  // namespace anabranch
