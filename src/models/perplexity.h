// Perplexity of a text: it is cut into independent windows, and every token but a window's first is predicted
// from those before it in the window.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <span>

#include "models/model.h"

namespace anabranch {

struct Likelihood {
  double negative_log = 0;  // sum over the tokens predicted
  int64_t predicted = 0;

  double mean() const { return negative_log / static_cast<double>(predicted); }
  double perplexity() const { return std::exp(mean()); }
};

// progress: called after each window with the number of tokens read. Throws on ids that the model does not
// have.
Likelihood measure_likelihood(const Model& model, std::span<const int> tokens, int window,
                              const std::function<void(size_t done)>& progress = {});

}  // namespace anabranch
