#include "models/perplexity.h"

#include <algorithm>

namespace anabranch {
namespace {

constexpr int kRows = 128;  // per forward: bounds the logits' memory

Prediction judge(const float* logits, int vocab, int token, size_t at) {
  const float* best = std::max_element(logits, logits + vocab);
  double sum = 0;
  for (int i = 0; i < vocab; i++) sum += std::exp(static_cast<double>(logits[i]) - *best);
  return {at, logits[token] - *best - std::log(sum), static_cast<int>(best - logits)};
}

// Of the tokens [begin + 1, begin + count).
std::vector<Prediction> predict_window(const Model& model, std::span<const int> tokens, size_t begin,
                                       size_t count) {
  auto state = model.make_state();
  const int vocab = model.spec().vocab;
  std::vector<Prediction> out;
  for (size_t at = begin; at + 1 < begin + count; at += kRows) {
    const size_t n = std::min<size_t>(kRows, begin + count - at);
    Batch batch;
    batch.add(state, tokens.subspan(at, n), Batch::Logits::none);
    for (size_t i = 0; i < n && at + i + 1 < begin + count; i++)
      batch.logit_rows.push_back(static_cast<int>(i));
    const auto logits = to_host(model.forward(batch).logits);
    for (size_t i = 0; i < batch.logit_rows.size(); i++)
      out.push_back(judge(logits.data<float>() + i * vocab, vocab, tokens[at + i + 1], at + i + 1));
  }
  return out;
}

}  // namespace

Likelihood measure_likelihood(const Model& model, std::span<const int> tokens, int window,
                              const AfterWindow& after_window) {
  Likelihood out;
  for (size_t at = 0; at + 1 < tokens.size(); at += static_cast<size_t>(window)) {
    const size_t count = std::min<size_t>(static_cast<size_t>(window), tokens.size() - at);
    const auto predictions = predict_window(model, tokens, at, count);
    double log_likelihood = 0;
    for (const Prediction& prediction : predictions) log_likelihood += prediction.logprob;
    out.negative_log -= log_likelihood;
    out.predicted += static_cast<int64_t>(predictions.size());
    if (after_window) after_window(at + count, predictions);
  }
  return out;
}

}  // namespace anabranch
