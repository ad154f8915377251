#include "models/divergence.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/thread_pool.h"

namespace anabranch {
namespace {

// log of the sum of exp(logits).
double log_normaliser(const float* logits, int vocab) {
  const double most = *std::max_element(logits, logits + vocab);
  double sum = 0;
  for (int i = 0; i < vocab; i++) sum += std::exp(logits[i] - most);
  return most + std::log(sum);
}

double divergence(const float* original, const float* model, int vocab) {
  const double of_original = log_normaliser(original, vocab), of_model = log_normaliser(model, vocab);
  double sum = 0;
  for (int i = 0; i < vocab; i++) {
    const double log_p = original[i] - of_original, p = std::exp(log_p);
    if (p != 0) sum += p * (log_p - (model[i] - of_model));
  }
  return sum < 0 ? 0 : sum;  // rounding can make it negative; NaN stays
}

}  // namespace

double Comparison::mean_divergence() const {
  return std::accumulate(divergences.begin(), divergences.end(), 0.0) /
         static_cast<double>(divergences.size());
}

double Comparison::divergence_quantile(double share) const {
  std::vector<double> sorted = divergences;
  const double rank = std::ceil(share * static_cast<double>(sorted.size()));
  const auto at = static_cast<std::ptrdiff_t>(std::max(rank, 1.0)) - 1;
  // NaN sorts after everything, so that it does not go unnoticed.
  std::nth_element(sorted.begin(), sorted.begin() + at, sorted.end(),
                   [](double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; });
  return sorted[static_cast<size_t>(at)];
}

double Comparison::same_top_share() const {
  return static_cast<double>(same_top) / static_cast<double>(divergences.size());
}

void Comparison::add(const ComparedPrediction& prediction) {
  original.add(prediction.original.logprob);
  model.add(prediction.model.logprob);
  divergences.push_back(prediction.divergence);
  same_top += prediction.original.best == prediction.model.best;
}

void Comparison::add(const Comparison& other) {
  for (const auto& [to, from] : {std::pair(&original, &other.original), {&model, &other.model}}) {
    to->negative_log += from->negative_log;
    to->predicted += from->predicted;
  }
  divergences.insert(divergences.end(), other.divergences.begin(), other.divergences.end());
  same_top += other.same_top;
}

Comparison compare_models(const Model& original, const Model& model, std::span<const int> tokens, int window,
                          std::optional<int> bos, const AfterComparedWindow& after_window) {
  const int vocab = model.spec().vocab;
  CHECK(original.spec().vocab == vocab, "vocabularies of {} and {} tokens", original.spec().vocab, vocab);
  Comparison out;
  for_each_window(tokens, window, bos, [&](std::span<const int> ids, size_t, size_t end) {
    std::vector<ComparedPrediction> predictions(ids.size() - 1);
    for (WindowReader of_original(original, ids), of_model(model, ids); !of_model.done();) {
      const size_t first = of_model.at() + 1;  // the first predicted token's index in the window
      const Tensor p = of_original.next(), q = of_model.next();
      shared_threads().parallel_for(p.shape(0), 1, [&](int64_t begin_row, int64_t end_row) {
        for (int64_t row = begin_row; row < end_row; row++) {
          const size_t at = first + static_cast<size_t>(row), in_text = at + end - ids.size();
          const float *a = p.data<float>() + row * vocab, *b = q.data<float>() + row * vocab;
          predictions[at - 1] = {judge(a, vocab, ids[at], in_text), judge(b, vocab, ids[at], in_text),
                                 divergence(a, b, vocab)};
        }
      });
    }
    for (const ComparedPrediction& prediction : predictions) out.add(prediction);
    if (after_window) after_window(end, predictions);
  });
  return out;
}

}  // namespace anabranch
