#include "decode/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "base/check.h"
#include "ops/elementwise.h"

namespace anabranch {
namespace {

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; round++) {
    const uint64_t p0 = 0xD2511F53ull * counter[0], p1 = 0xCD9E8D57ull * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(p0)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

// Gumbel noise lies within (-4, 37) for the 52-bit uniforms drawn here: a token further behind cannot win.
constexpr float kNoiseSpan = 41.0f;

struct Candidate {
  float score;  // logit / temperature
  int token;
};

bool ahead(const Candidate& a, const Candidate& b) {
  return a.score != b.score ? a.score > b.score : a.token < b.token;
}

// Sorts the list as far as needed and cuts it by top_k, top_p and min_p.
void filter(std::vector<Candidate>& list, const SamplingParams& params) {
  if (params.top_k > 0 && params.top_k < static_cast<int>(list.size())) {
    std::nth_element(list.begin(), list.begin() + params.top_k, list.end(), ahead);
    list.resize(params.top_k);
  }
  if (params.top_p < 1.0f) {
    std::sort(list.begin(), list.end(), ahead);
    double total = 0, reached = 0;
    for (const auto& c : list) total += std::exp(static_cast<double>(c.score) - list[0].score);
    size_t keep = 0;
    while (keep < list.size() && (keep == 0 || reached < params.top_p * total))
      reached += std::exp(static_cast<double>(list[keep++].score) - list[0].score);
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
  double total = 0;
  for (const auto& c : list) total += std::exp(static_cast<double>(c.score) - list[0].score);
  size_t likely = 0;
  while (likely < list.size() &&
         std::exp(static_cast<double>(list[likely].score) - list[0].score) >= params.xtc_threshold * total)
    likely++;
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
  const auto r = philox({token, 0, static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32)},
                        {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  const uint64_t bits = (static_cast<uint64_t>(r[0]) << 20) | (r[1] >> 12);  // 52: bits + 0.5 stays exact
  return (static_cast<double>(bits) + 0.5) * 0x1p-52;
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
    const double uniform = counter_uniform(params.seed, position, static_cast<uint32_t>(c.token));
    const Candidate drawn{c.score + static_cast<float>(-std::log(-std::log(uniform))), c.token};
    if (winner.token < 0 || ahead(drawn, winner)) winner = drawn;
  }
  return winner.token;
}

}  // namespace anabranch
