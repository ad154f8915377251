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

// Of all tokens but the first.
std::vector<Prediction> predict_window(const Model& model, std::span<const int> tokens) {
  auto state = model.make_state();
  const int vocab = model.spec().vocab;
  std::vector<Prediction> out;
  for (size_t at = 0; at + 1 < tokens.size(); at += kRows) {
    const size_t n = std::min<size_t>(kRows, tokens.size() - at);
    Batch batch;
    batch.add(state, tokens.subspan(at, n), Batch::Logits::none);
    for (size_t i = 0; i < n && at + i + 1 < tokens.size(); i++)
      batch.logit_rows.push_back(static_cast<int>(i));
    const auto logits = to_host(model.forward(batch).logits);
    for (size_t i = 0; i < batch.logit_rows.size(); i++)
      out.push_back(judge(logits.data<float>() + i * vocab, vocab, tokens[at + i + 1], at + i + 1));
  }
  return out;
}

}  // namespace

Likelihood measure_likelihood(const Model& model, std::span<const int> tokens, int window,
                              std::optional<int> bos, const AfterWindow& after_window) {
  Likelihood out;
  for (size_t at = 0; at < tokens.size();) {
    const size_t added = bos && window > 1 && tokens[at] != *bos ? 1 : 0,
                 count = std::min(static_cast<size_t>(window) - added, tokens.size() - at);
    std::vector<int> ids(added, bos.value_or(0));
    ids.insert(ids.end(), tokens.begin() + static_cast<std::ptrdiff_t>(at),
               tokens.begin() + static_cast<std::ptrdiff_t>(at + count));
    if (ids.size() < 2) break;
    auto predictions = predict_window(model, ids);
    double log_likelihood = 0;
    for (Prediction& prediction : predictions) {
      prediction.at += at - added;
      log_likelihood += prediction.logprob;
    }
    out.negative_log -= log_likelihood;
    out.predicted += static_cast<int64_t>(predictions.size());
    at += count;
    if (after_window) after_window(at, predictions);
  }
  return out;
}

}  // namespace anabranch
