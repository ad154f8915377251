// Perplexity of a text: it is cut into independent windows, and every token but a window's first is predicted
// from those before it in the window.
//
// Some models have always seen BOS at the start of a text, and predict badly without it. With `bos`, every
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

  void add(double logprob) {
    negative_log -= logprob;
    predicted++;
  }
  double mean() const { return negative_log / static_cast<double>(predicted); }
  double perplexity() const { return std::exp(mean()); }
};

// A predicted token.
struct Prediction {
  size_t at = 0;  // position in the text
  double logprob = 0;
  int best = 0;  // the most likely token at its position
};

// Calls visit(ids, begin, end) for each window: the text's tokens [begin, end), after BOS where it was added
// (ids.size() is end - begin or one more). Stops at a window of a single token, which has nothing to predict.
void for_each_window(std::span<const int> tokens, int window, std::optional<int> bos,
                     const std::function<void(std::span<const int> ids, size_t begin, size_t end)>& visit);

// Reads a window a bounded number of tokens at a time.
class WindowReader {
 public:
  // ids: at least one; they must outlive the reader.
  WindowReader(const Model& model, std::span<const int> ids)
      : model_(model), state_(model.make_state()), ids_(ids) {}

  bool done() const { return at_ + 1 >= ids_.size(); }
  size_t at() const { return at_; }
  // Logits [rows, vocab] (f32, on the host) after the tokens at(), at() + 1, ... that have a successor.
  // Precondition: not done().
  Tensor next();

 private:
  const Model& model_;
  SequenceState state_;
  std::span<const int> ids_;
  size_t at_ = 0;
};

// Evaluates how a row of logits [vocab] predicts `token`, at position `at` of the text.
Prediction judge(const float* logits, int vocab, int token, size_t at);

// after_window: called after each window with the number of tokens read and the window's predictions. Throws
// on ids that the model does not have.
using AfterWindow = std::function<void(size_t done, std::span<const Prediction> predictions)>;
// window: the maximum number of tokens, BOS included; at least 1, or 2 for BOS to be added.
Likelihood measure_likelihood(const Model& model, std::span<const int> tokens, int window,
                              std::optional<int> bos = {}, const AfterWindow& after_window = {});

}  // namespace anabranch
