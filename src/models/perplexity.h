// Perplexity of a text: it is cut into independent windows, and every token but a window's first is predicted
// from those before it in the window.
//
// Some models have always seen BOS at the start of a text, and predict badly without. With `bos`, every
// window starts with it, and all tokens of the text are predicted.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "models/model.h"

namespace anabranch {

struct Likelihood {
  double negative_log = 0;  // sum over the tokens predicted
  int64_t predicted = 0;

  double mean() const { return negative_log / static_cast<double>(predicted); }
  double perplexity() const { return std::exp(mean()); }
};

// A predicted token.
struct Prediction {
  size_t at = 0;  // its place in the text
  double logprob = 0;
  int best = 0;  // the most likely token in its place
};

// after_window: called after each window with the number of tokens read and the window's predictions. Throws
// on ids that the model does not have.
using AfterWindow = std::function<void(size_t done, std::span<const Prediction> predictions)>;
// window: at most so many tokens, BOS included; at least 1, and 2 for BOS to be added.
Likelihood measure_likelihood(const Model& model, std::span<const int> tokens, int window,
                              std::optional<int> bos = {}, const AfterWindow& after_window = {});

}  // namespace anabranch
