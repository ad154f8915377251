#include "decode/sampler.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "base/check.h"
#include "ops/draw.h"
#include "ops/elementwise.h"

namespace anabranch {
namespace {

// A token whose score is further below the best one cannot be drawn.
constexpr float kNoiseSpan = ops::kMostNoise - ops::kLeastNoise;

struct Candidate {
  float score;  // logit / temperature
  int token;
};

bool ahead(const Candidate& a, const Candidate& b) {
  return a.score != b.score ? a.score > b.score : a.token < b.token;
}

// The weight of candidate i in a sorted list.
uint64_t weight_of(const std::vector<Candidate>& list, size_t i) {
  return ops::weight_of(static_cast<double>(list[i].score) - list[0].score);
}
uint64_t sum_of_weights(const std::vector<Candidate>& list) {
  uint64_t sum = 0;
  for (size_t i = 0; i < list.size(); i++) sum += weight_of(list, i);
  return sum;
}

// Sorts the list as far as needed and cuts it by top_k, top_p and min_p.
void filter(std::vector<Candidate>& list, const SamplingParams& params) {
  if (params.top_k > 0 && params.top_k < static_cast<int>(list.size())) {
    std::nth_element(list.begin(), list.begin() + params.top_k, list.end(), ahead);
    list.resize(params.top_k);
  }
  if (params.top_p < 1.0f) {
    std::sort(list.begin(), list.end(), ahead);
    const double enough = static_cast<double>(params.top_p) * static_cast<double>(sum_of_weights(list));
    uint64_t reached = 0;
    size_t keep = 0;
    while (keep < list.size() && (keep == 0 || static_cast<double>(reached) < enough))
      reached += weight_of(list, keep++);
    list.resize(keep);
  }
  if (params.min_p > 0.0f) {
    const auto top = *std::min_element(list.begin(), list.end(), ahead);
    const float least = top.score + std::log(params.min_p);
    std::erase_if(list, [&](const Candidate& c) { return c.score < least && c.token != top.token; });
  }
}

// Whether XTC applies is decided by one random number per position, independent of the tokens.
void exclude_top_choices(std::vector<Candidate>& list, const SamplingParams& params, uint64_t position) {
  constexpr uint32_t kNoToken = UINT32_MAX;
  if (params.xtc_probability <= 0 ||
      counter_uniform(params.seed, position, kNoToken) >= params.xtc_probability)
    return;
  std::sort(list.begin(), list.end(), ahead);
  const double least = static_cast<double>(params.xtc_threshold) * static_cast<double>(sum_of_weights(list));
  size_t likely = 0;
  while (likely < list.size() && static_cast<double>(weight_of(list, likely)) >= least) likely++;
  if (likely > 1) list.erase(list.begin(), list.begin() + static_cast<long>(likely - 1));
}

// Calls change(logit) if there is a logit for the token.
template <typename Change>
void change_logit(std::vector<float>& logits, std::span<const int> ids, int token, const Change& change) {
  size_t at = token;
  if (!ids.empty()) {
    const auto it = std::lower_bound(ids.begin(), ids.end(), token);
    if (it == ids.end() || *it != token) return;
    at = it - ids.begin();
  }
  if (at < logits.size()) change(logits[at]);  // a draft model may have a larger vocabulary
}

std::vector<float> changed_logits(std::span<const float> logits, const SamplingParams& params,
                                  const TokenHistory& history, std::span<const int> ids) {
  std::vector<float> out(logits.begin(), logits.end());
  for (const auto& count : history.counts())
    change_logit(out, ids, count.token, [&](float& logit) {
      if (count.seen > 0)
        logit = logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
      float penalty = params.frequency_penalty * static_cast<float>(count.frequent);
      if (count.present > 0) penalty += params.presence_penalty;
      if (penalty != 0) logit -= penalty;
    });
  for (const auto& entry : params.logit_bias)
    change_logit(out, ids, entry.first, [&](float& logit) { logit += entry.second; });
  return out;
}

}  // namespace

double counter_uniform(uint64_t seed, uint64_t position, uint32_t token) {
  return ops::uniform(ops::random_words(seed, position, token));
}

int sample(std::span<const float> logits, const SamplingParams& params, const TokenHistory& history,
           uint64_t position, std::span<const int> ids) {
  CHECK(!logits.empty() && (ids.empty() || ids.size() == logits.size()));
  std::vector<float> changed;
  if (params.changes_logits()) logits = changed = changed_logits(logits, params, history, ids);
  const auto id_of = [&](size_t i) { return ids.empty() ? static_cast<int>(i) : ids[i]; };
  const int best = ops::best_of_row(logits);
  if (best < 0) throw std::runtime_error("the model produced logits that are not numbers");
  if (params.greedy()) return id_of(static_cast<size_t>(best));

  const float least = logits[best] - kNoiseSpan * params.temperature;
  std::vector<Candidate> list;
  for (size_t i = 0; i < logits.size(); i++)
    if (logits[i] >= least) list.push_back({logits[i] / params.temperature, id_of(i)});
  filter(list, params);
  exclude_top_choices(list, params, position);

  Candidate winner{-INFINITY, -1};
  for (const auto& c : list) {
    if (winner.token >= 0 && c.score + ops::kMostNoise < winner.score) continue;
    const auto words = ops::random_words(params.seed, position, static_cast<uint32_t>(c.token));
    if (winner.token >= 0 && c.score + ops::most_noise(words) < winner.score) continue;
    const Candidate drawn{c.score + ops::noise_of(words), c.token};
    if (winner.token < 0 || ahead(drawn, winner)) winner = drawn;
  }
  return winner.token;
}

ops::RowChoice choice_of(const SamplingParams& params, uint64_t position) {
  using Kind = ops::RowChoice::Kind;
  ops::RowChoice choice{.temperature = params.temperature,
                        .behind_top = params.min_p > 0 ? std::log(params.min_p) : -INFINITY,
                        .top_k = params.top_k,
                        .top_p = params.top_p,
                        .seed = params.seed,
                        .position = position};
  if (params.changes_logits() || (params.xtc_probability > 0 && !params.greedy())) return choice;
  if (params.greedy())
    choice.kind = Kind::greedy;
  else if (params.top_k > 0 && params.top_k <= ops::kMostTopK)
    choice.kind = Kind::top_k;
  else if (params.top_k <= 0 && params.top_p >= 1)
    choice.kind = Kind::noise;
  return choice;
}

}  // namespace anabranch
