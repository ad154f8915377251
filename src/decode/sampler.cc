#include "decode/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "base/check.h"
#include "decode/filters.h"
#include "ops/draw.h"
#include "ops/elementwise.h"

namespace anabranch {
namespace {

// A token whose score is further below the best one cannot be drawn.
constexpr float kNoiseSpan = ops::kMostNoise - ops::kLeastNoise;

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
  if (params.dry.on())
    for (const auto& [token, length] : history.repetitions().next())
      change_logit(out, ids, token, [&](float& logit) { logit -= history.repetitions().penalty(length); });
  for (const auto& entry : params.logit_bias)
    change_logit(out, ids, entry.first, [&](float& logit) { logit += entry.second; });
  return out;
}

}  // namespace

double counter_uniform(uint64_t seed, uint64_t position, uint32_t token) {
  return ops::uniform(ops::random_words(seed, position, token));
}

namespace {

// The tokens that can be drawn, in the order of their ids. Their scores are their logits.
template <typename IdOf>
std::vector<Candidate> candidates_of(std::span<const float> logits, float best, const SamplingParams& params,
                                     const IdOf& id_of) {
  // Filters at temperature 1 may look further down than the temperature, and a dynamic temperature depends on
  // the number of tokens.
  const float reach = params.typical_p < 1 ? std::max(params.temperature, 1.0f) : params.temperature;
  const float least =
      params.dynatemp_range > 0 ? std::numeric_limits<float>::lowest() : best - kNoiseSpan * reach;
  std::vector<Candidate> list;
  for (size_t i = 0; i < logits.size(); i++)
    if (logits[i] >= least) list.push_back({logits[i], id_of(i)});
  return list;
}

// The candidate with the largest sum of score and noise.
Candidate winner_of(const std::vector<Candidate>& list, uint64_t seed, uint64_t position) {
  Candidate winner{-INFINITY, -1};
  for (const auto& c : list) {
    if (winner.token >= 0 && c.score + ops::kMostNoise < winner.score) continue;
    const auto words = ops::random_words(seed, position, static_cast<uint32_t>(c.token));
    if (winner.token >= 0 && c.score + ops::most_noise(words) < winner.score) continue;
    const Candidate drawn{c.score + ops::noise_of(words), c.token};
    if (winner.token < 0 || ahead(drawn, winner)) winner = drawn;
  }
  return winner;
}

void divide_scores(std::vector<Candidate>& list, float temperature) {
  for (Candidate& c : list) c.score /= temperature;
}

Drawn draw_by_mirostat(std::vector<Candidate> list, size_t vocab, const SamplingParams& params,
                       const TokenHistory& history, uint64_t position) {
  divide_scores(list, params.temperature);
  keep_unsurprising(list, params.mirostat, history.mu(), vocab);
  const int token = winner_of(list, params.seed, position).token;
  return {token, history.mu() - params.mirostat_eta * (surprise_of(list, token) - params.mirostat_tau)};
}

}  // namespace

Drawn draw(std::span<const float> logits, const SamplingParams& params, const TokenHistory& history,
           uint64_t position, std::span<const int> ids) {
  CHECK(!logits.empty() && (ids.empty() || ids.size() == logits.size()));
  std::vector<float> changed;
  if (params.changes_logits()) logits = changed = changed_logits(logits, params, history, ids);
  const auto id_of = [&](size_t i) { return ids.empty() ? static_cast<int>(i) : ids[i]; };
  const int best = ops::best_of_row(logits);
  if (best < 0) throw std::runtime_error("the model produced logits that are not numbers");
  if (params.greedy()) return {id_of(static_cast<size_t>(best))};

  auto list = candidates_of(logits, logits[best], params, id_of);
  if (params.mirostat > 0) return draw_by_mirostat(std::move(list), logits.size(), params, history, position);
  if (params.top_n_sigma > 0) keep_near_best(list, logits, params.top_n_sigma);
  if (params.typical_p < 1) {
    keep_top_k(list, params.top_k);
    keep_typical(list, params.typical_p);
  }
  const bool dynamic = params.dynatemp_range > 0;
  if (!dynamic && params.temperature <= 0) return {std::min_element(list.begin(), list.end(), ahead)->token};
  if (!dynamic) divide_scores(list, params.temperature);
  keep_top_k(list, params.top_k);
  keep_top_p(list, params.top_p);
  keep_min_p(list, params.min_p);
  // Whether XTC applies is decided by one random number per position, independent of the tokens.
  constexpr uint32_t kNoToken = UINT32_MAX;
  if (params.xtc_probability > 0 && counter_uniform(params.seed, position, kNoToken) < params.xtc_probability)
    exclude_top_choices(list, params.xtc_threshold);
  if (dynamic) {
    const float temperature = dynamic_temperature(list, params);
    constexpr float kLeast = 1e-6f;  // scores divided by less than this are infinite
    if (temperature < kLeast) return {std::min_element(list.begin(), list.end(), ahead)->token};
    divide_scores(list, temperature);
  }
  return {winner_of(list, params.seed, position).token};
}

ops::RowSampling row_sampling(const SamplingParams& params, uint64_t position) {
  using Kind = ops::RowSampling::Kind;
  ops::RowSampling sampling{.temperature = params.temperature,
                            .behind_top = params.min_p > 0 ? std::log(params.min_p) : -INFINITY,
                            .top_k = params.top_k,
                            .top_p = params.top_p,
                            .seed = params.seed,
                            .position = position};
  if (params.changes_logits() || (params.filters_on_host() && !params.greedy())) return sampling;
  if (params.greedy())
    sampling.kind = Kind::greedy;
  else if (params.top_k > 0 && params.top_k <= ops::kMostTopK)
    sampling.kind = Kind::top_k;
  else if (params.top_k <= 0 && params.top_p >= 1)
    sampling.kind = Kind::noise;
  return sampling;
}

}  // namespace anabranch
