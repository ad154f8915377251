#include "ops/choose_experts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace anabranch::ops {
namespace {

constexpr float kExcluded = -std::numeric_limits<float>::infinity();

// The score of a logit: softmax over all experts, or sigmoid.
class Scorer {
 public:
  Scorer(std::span<const float> logits, RouterSpec::Scores scores)
      : sigmoid_(scores == RouterSpec::Scores::sigmoid) {
    if (sigmoid_) return;
    best_ = *std::max_element(logits.begin(), logits.end());
    for (const float x : logits) sum_ += std::exp(x - best_);
  }
  double operator()(float logit) const {
    return sigmoid_ ? 1 / (1 + std::exp(-double{logit})) : std::exp(logit - best_) / sum_;
  }

 private:
  bool sigmoid_;
  double best_ = 0, sum_ = 0;
};

bool has_nan(std::span<const float> values) {
  return std::ranges::any_of(values, [](float x) { return std::isnan(x); });
}

std::vector<float> soft_capped(std::span<const float> logits, float cap) {
  std::vector<float> out;
  for (const float x : logits) out.push_back(static_cast<float>(cap * std::tanh(double{x} / cap)));
  return out;
}

// The `count` largest, in ascending order; among equal ones the lower index.
template <class Index>
void take_largest(std::span<const float> values, size_t count, Index* out) {
  std::vector<Index> order(values.size());
  std::iota(order.begin(), order.end(), Index{0});
  std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(count), [&](Index a, Index b) {
    const float of_a = values[static_cast<size_t>(a)], of_b = values[static_cast<size_t>(b)];
    return of_a != of_b ? of_a > of_b : a < b;
  });
  std::copy_n(order.begin(), count, out);
  std::sort(out, out + count);
}

// Excludes the experts of all but the best groups.
void keep_groups(const RouterSpec& spec, std::vector<float>& values) {
  const auto groups = static_cast<size_t>(spec.groups), size = values.size() / groups;
  std::vector<float> sums;
  for (size_t g = 0; g < groups; g++) {
    size_t best[2];
    const std::span<const float> group(values.data() + g * size, size);
    take_largest(group, spec.best_of_group ? 1 : 2, best);
    sums.push_back(group[best[0]] + (spec.best_of_group ? 0.0f : group[best[1]]));
  }
  std::vector<size_t> kept(static_cast<size_t>(spec.top_groups));
  take_largest(sums, kept.size(), kept.data());
  for (size_t i = 0; i < values.size(); i++)
    if (!std::ranges::binary_search(kept, i / size)) values[i] = kExcluded;
}

// What experts are chosen by: their logits, which are in the order of their scores, or their scores and
// biases.
std::vector<float> choice_values(std::span<const float> logits, const Scorer& score, const RouterSpec& spec,
                                 const float* bias) {
  std::vector<float> values(logits.begin(), logits.end());
  if (!bias && spec.groups == 1) return values;
  for (size_t i = 0; i < values.size(); i++)
    values[i] = static_cast<float>(score(logits[i])) + (bias ? bias[i] : 0.0f);
  if (spec.groups > 1 && !has_nan(values)) keep_groups(spec, values);
  return values;
}

// sparse_mixer: the two largest logits, each with its share in a softmax over the experts that are worse by
// at most 2 * tolerance times their size (or the largest logit, if that is more). The second's softmax is
// without the first.
void mix_sparsely(std::span<const float> logits, float tolerance, int32_t* experts, double* scores) {
  size_t chosen[2] = {logits.size(), logits.size()};
  for (int turn = 0; turn < 2; turn++) {
    size_t best = logits.size();
    for (size_t i = 0; i < logits.size(); i++)
      if (i != chosen[0] && (best == logits.size() || logits[i] > logits[best])) best = i;
    double sum = 0;
    for (size_t i = 0; i < logits.size(); i++) {
      const float size = std::max(std::fabs(logits[i]), logits[best]);
      const bool worse = (logits[best] - logits[i]) / size > 2 * tolerance;
      if (i != chosen[0] && !worse) sum += std::exp(double{logits[i]} - double{logits[best]});
    }
    chosen[turn] = best;
    scores[turn] = 1 / sum;
  }
  const bool turned = chosen[1] < chosen[0];
  if (turned) std::swap(scores[0], scores[1]);
  experts[0] = static_cast<int32_t>(chosen[turned ? 1 : 0]);
  experts[1] = static_cast<int32_t>(chosen[turned ? 0 : 1]);
}

}  // namespace

float sigmoid(float x) {
  return static_cast<float>(1 / (1 + std::exp(-double{x})));
}

void choose_experts(std::span<const float> logits, const RouterSpec& spec, const float* expert_scale,
                    const float* choice_bias, int32_t* experts, float* weights) {
  if (spec.soft_cap > 0) {
    RouterSpec uncapped = spec;
    uncapped.soft_cap = 0;
    const std::vector<float> capped = soft_capped(logits, spec.soft_cap);
    return choose_experts(capped, uncapped, expert_scale, choice_bias, experts, weights);
  }
  const auto top_k = static_cast<size_t>(spec.top_k);
  const bool sparse = spec.scores == RouterSpec::Scores::sparse_mixer;
  const Scorer score(logits, spec.scores);
  const std::vector<float> values = choice_values(logits, score, spec, choice_bias);
  if (has_nan(logits) || has_nan(values)) {
    std::iota(experts, experts + top_k, 0);
    std::fill_n(weights, top_k, NAN);
    return;
  }
  std::vector<double> scores(top_k);
  if (sparse) {
    mix_sparsely(logits, spec.tolerance, experts, scores.data());
  } else {
    take_largest(values, top_k, experts);
    for (size_t i = 0; i < top_k; i++) scores[i] = score(logits[static_cast<size_t>(experts[i])]);
  }
  double scale = spec.scale;
  if (spec.normalise) {
    const double sum = std::accumulate(scores.begin(), scores.end(), 0.0);
    scale /= std::max(sum, double{spec.least_sum}) + double{spec.added_sum};
  }
  for (size_t i = 0; i < top_k; i++) {
    const double of_expert = expert_scale ? double{expert_scale[experts[i]]} : 1.0;
    weights[i] = static_cast<float>(scores[i] * scale * of_expert);
  }
}

}  // namespace anabranch::ops
