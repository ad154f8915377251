#include "models/perplexity.h"

#include <algorithm>

namespace anabranch {
namespace {

constexpr int kRows = 128;  // per forward: bounds the logits' memory

double log_likelihood(const float* logits, int vocab, int token) {
  float best = logits[0];
  for (int i = 1; i < vocab; i++) best = std::max(best, logits[i]);
  double sum = 0;
  for (int i = 0; i < vocab; i++) sum += std::exp(static_cast<double>(logits[i]) - best);
  return logits[token] - best - std::log(sum);
}

// Sum of log-likelihoods of tokens [1, count).
double window_log_likelihood(const Model& model, const int* tokens, int count) {
  auto state = model.make_state();
  const int vocab = model.spec().vocab;
  double sum = 0;
  for (int at = 0; at < count; at += kRows) {
    const int n = std::min(kRows, count - at);
    Batch batch;
    batch.add(state, {tokens + at, static_cast<size_t>(n)}, Batch::Logits::none);
    for (int i = 0; i < n && at + i + 1 < count; i++) batch.logit_rows.push_back(i);
    if (batch.logit_rows.empty()) break;
    const auto logits = to_host(model.forward(batch).logits);
    for (size_t i = 0; i < batch.logit_rows.size(); i++)
      sum += log_likelihood(logits.data<float>() + i * vocab, vocab, tokens[at + i + 1]);
  }
  return sum;
}

}  // namespace

Likelihood measure_likelihood(const Model& model, std::span<const int> tokens, int window,
                              const std::function<void(size_t done)>& progress) {
  Likelihood out;
  for (size_t at = 0; at + 1 < tokens.size(); at += static_cast<size_t>(window)) {
    const int n = static_cast<int>(std::min<size_t>(static_cast<size_t>(window), tokens.size() - at));
    out.negative_log -= window_log_likelihood(model, tokens.data() + at, n);
    out.predicted += n - 1;
    if (progress) progress(at + static_cast<size_t>(n));
  }
  return out;
}

}  // namespace anabranch
