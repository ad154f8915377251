#include "decode/filters.h"

#include <algorithm>
#include <cmath>

#include "ops/draw.h"

namespace anabranch {
namespace {

constexpr double kWeightOfBest = 0x1p40;  // see ops::weight_of

// The weight of candidate i in a list whose first is the best.
uint64_t weight_of(const std::vector<Candidate>& list, size_t i) {
  return ops::weight_of(static_cast<double>(list[i].score) - list[0].score);
}
uint64_t sum_of_weights(const std::vector<Candidate>& list) {
  uint64_t sum = 0;
  for (size_t i = 0; i < list.size(); i++) sum += weight_of(list, i);
  return sum;
}

// The surprise of each candidate in nats, and the mean surprise: the entropy.
struct Surprises {
  std::vector<double> of;
  double mean = 0;
};

// The list must be sorted.
Surprises surprises(const std::vector<Candidate>& list) {
  Surprises out;
  const auto sum = static_cast<double>(sum_of_weights(list));
  const double least = std::log(sum / kWeightOfBest);
  for (size_t i = 0; i < list.size(); i++) {
    out.of.push_back(least + (static_cast<double>(list[0].score) - list[i].score));
    out.mean += static_cast<double>(weight_of(list, i)) / sum * out.of[i];
  }
  return out;
}

// Mirostat 1: the number of tokens to keep. It fits the exponent of Zipf's law to the most probable tokens of
// a sorted list, and finds the number for which the expected surprise is mu bits (Basu et al. 2020, algorithm
// 1).
size_t count_by_zipf(const std::vector<Candidate>& list, double mu, size_t vocab) {
  constexpr size_t kFitted = 100;
  double products = 0, squares = 0;
  for (size_t i = 0; i + 1 < std::min(list.size(), kFitted); i++) {
    const double ratio = std::log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
    products += ratio * (static_cast<double>(list[i].score) - list[i + 1].score);
    squares += ratio * ratio;
  }
  if (squares == 0) return 1;
  const double exponent = products / squares, excess = exponent - 1, n = static_cast<double>(vocab);
  // (1 - n^-e) / e, which has the limit log(n) at 0.
  const double share = std::abs(excess) < 1e-9 ? std::log(n) : (1 - std::pow(n, -excess)) / excess;
  const double count = std::pow(std::exp2(mu) / share, 1 / exponent);
  if (!(count < static_cast<double>(list.size()))) return list.size();
  return std::max<size_t>(1, static_cast<size_t>(count));
}

}  // namespace

void keep_top_k(std::vector<Candidate>& list, int k) {
  if (k <= 0 || k >= static_cast<int>(list.size())) return;
  std::nth_element(list.begin(), list.begin() + k, list.end(), ahead);
  list.resize(static_cast<size_t>(k));
}

void keep_top_p(std::vector<Candidate>& list, float p) {
  if (p >= 1) return;
  std::sort(list.begin(), list.end(), ahead);
  const double enough = static_cast<double>(p) * static_cast<double>(sum_of_weights(list));
  uint64_t reached = 0;
  size_t keep = 0;
  while (keep < list.size() && (keep == 0 || static_cast<double>(reached) < enough))
    reached += weight_of(list, keep++);
  list.resize(keep);
}

void keep_min_p(std::vector<Candidate>& list, float p) {
  if (p <= 0) return;
  const auto top = *std::min_element(list.begin(), list.end(), ahead);
  const float least = top.score + std::log(p);
  std::erase_if(list, [&](const Candidate& c) { return c.score < least && c.token != top.token; });
}

void keep_near_best(std::vector<Candidate>& list, std::span<const float> logits, float n) {
  double sum = 0, squares = 0, count = 0;
  for (const float logit : logits)
    if (std::isfinite(logit)) sum += logit, count++;
  for (const float logit : logits)
    if (std::isfinite(logit)) squares += (logit - sum / count) * (logit - sum / count);
  const auto top = *std::min_element(list.begin(), list.end(), ahead);
  const double least = top.score - static_cast<double>(n) * std::sqrt(squares / count);
  std::erase_if(list, [&](const Candidate& c) { return c.score < least; });
}

void keep_typical(std::vector<Candidate>& list, float p) {
  std::sort(list.begin(), list.end(), ahead);
  const Surprises surprise = surprises(list);
  const double enough = static_cast<double>(p) * static_cast<double>(sum_of_weights(list));
  std::vector<size_t> order(list.size());
  for (size_t i = 0; i < order.size(); i++) order[i] = i;
  const auto distance = [&](size_t i) { return std::abs(surprise.of[i] - surprise.mean); };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return distance(a) < distance(b); });
  std::vector<Candidate> kept;
  uint64_t reached = 0;
  for (const size_t i : order) {
    if (!kept.empty() && static_cast<double>(reached) >= enough) break;
    kept.push_back(list[i]);
    reached += weight_of(list, i);
  }
  list = std::move(kept);
}

void exclude_top_choices(std::vector<Candidate>& list, float threshold) {
  std::sort(list.begin(), list.end(), ahead);
  const double least = static_cast<double>(threshold) * static_cast<double>(sum_of_weights(list));
  size_t likely = 0;
  while (likely < list.size() && static_cast<double>(weight_of(list, likely)) >= least) likely++;
  if (likely > 1) list.erase(list.begin(), list.begin() + static_cast<long>(likely - 1));
}

void keep_unsurprising(std::vector<Candidate>& list, int version, double mu, size_t vocab) {
  std::sort(list.begin(), list.end(), ahead);
  if (version == 1) return list.resize(count_by_zipf(list, mu, vocab));
  const Surprises surprise = surprises(list);
  size_t keep = 1;
  while (keep < list.size() && surprise.of[keep] / std::log(2.0) <= mu) keep++;
  list.resize(keep);
}

double surprise_of(const std::vector<Candidate>& list, int token) {
  const auto at = std::find_if(list.begin(), list.end(), [&](const auto& c) { return c.token == token; });
  return surprises(list).of[static_cast<size_t>(at - list.begin())] / std::log(2.0);
}

float dynamic_temperature(std::vector<Candidate>& list, const SamplingParams& params) {
  std::sort(list.begin(), list.end(), ahead);
  const double most = std::log(static_cast<double>(list.size()));
  const double disorder = most > 0 ? std::clamp(surprises(list).mean / most, 0.0, 1.0) : 0;
  const double low = std::max(0.0f, params.temperature - params.dynatemp_range),
               high = params.temperature + params.dynatemp_range;
  return static_cast<float>(low + (high - low) * std::pow(disorder, params.dynatemp_exponent));
}

}  // namespace anabranch
