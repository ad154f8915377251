#include "ops/choose_experts.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace anabranch::ops {
namespace {

// Scores of the chosen experts: softmax over all experts, or sigmoid.
void score(std::span<const float> logits, RouterSpec::Scores scores, const int32_t* experts, size_t top_k,
           double* out) {
  if (scores == RouterSpec::Scores::sigmoid) {
    for (size_t i = 0; i < top_k; i++) out[i] = 1 / (1 + std::exp(-double{logits[experts[i]]}));
    return;
  }
  const double best = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(x - best);
  for (size_t i = 0; i < top_k; i++) out[i] = std::exp(logits[experts[i]] - best) / sum;
}

}  // namespace

float sigmoid(float x) {
  return static_cast<float>(1 / (1 + std::exp(-double{x})));
}

void choose_experts(std::span<const float> logits, const RouterSpec& spec, const float* expert_scale,
                    int32_t* experts, float* weights) {
  const auto top_k = static_cast<size_t>(spec.top_k);
  if (std::ranges::any_of(logits, [](float x) { return std::isnan(x); })) {
    std::iota(experts, experts + top_k, 0);
    std::fill_n(weights, top_k, NAN);
    return;
  }
  // Both scores grow with the logit, so the largest logits are the largest scores.
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::partial_sort(order, order.begin() + spec.top_k, [&](int32_t a, int32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  });
  std::copy_n(order.begin(), top_k, experts);
  std::sort(experts, experts + top_k);
  std::vector<double> scores(top_k);
  score(logits, spec.scores, experts, top_k, scores.data());
  double scale = spec.scale;
  if (spec.normalise) scale /= std::accumulate(scores.begin(), scores.end(), 0.0);
  for (size_t i = 0; i < top_k; i++) {
    const double of_expert = expert_scale ? double{expert_scale[experts[i]]} : 1.0;
    weights[i] = static_cast<float>(scores[i] * scale * of_expert);
  }
}

}  // namespace anabranch::ops
