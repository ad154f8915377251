#include "decode/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace anabranch {
namespace {

const std::vector<float> kLogits = {1.0f, 3.0f, 2.0f, -1.0f, 3.0f, 0.0f};

std::vector<double> softmax(const std::vector<float>& logits, double temperature) {
  std::vector<double> p;
  double sum = 0;
  for (float l : logits) sum += p.emplace_back(std::exp(l / temperature));
  for (double& v : p) v /= sum;
  return p;
}

std::vector<int> counts(const SamplingParams& params, int draws) {
  std::vector<int> n(kLogits.size());
  for (int i = 0; i < draws; i++) n[sample(kLogits, params, {}, i)]++;
  return n;
}

TEST(Sampler, GreedyTakesTheLowestOfEqualMaxima) {
  EXPECT_EQ(sample(kLogits, {}, {}, 0), 1);
  EXPECT_EQ(sample(kLogits, {.temperature = 2.0f, .top_k = 1, .seed = 5}, {}, 9), 1);
}

TEST(Sampler, LogitsThatAreNoNumbersAreErrors) {
  for (const float temperature : {0.0f, 1.0f}) {
    SamplingParams params;
    params.temperature = temperature;
    for (size_t at = 0; at < 3; at++)
      for (const float bad : {NAN, INFINITY}) {
        std::vector<float> logits = {1, 2, 3};
        logits[at] = bad;
        EXPECT_THROW(sample(logits, params, {}, 0), std::runtime_error) << bad << " at " << at;
      }
    const std::vector<float> masked = {-INFINITY, 2, -INFINITY};
    EXPECT_EQ(sample(masked, params, {}, 0), 1);
  }
}

TEST(Sampler, IsAFunctionOfSeedAndPosition) {
  const SamplingParams a{.temperature = 1.0f, .seed = 1}, b{.temperature = 1.0f, .seed = 2};
  int different = 0;
  for (int i = 0; i < 200; i++) {
    EXPECT_EQ(sample(kLogits, a, {}, i), sample(kLogits, a, {}, i));
    different += sample(kLogits, a, {}, i) != sample(kLogits, b, {}, i);
  }
  EXPECT_GT(different, 50);
}

// Chi-square against softmax; 5 degrees of freedom, p = 1e-4 lies at 25.7. The seed is fixed: no flakes.
TEST(Sampler, DrawsFromTheDistribution) {
  for (const float temperature : {0.5f, 1.0f, 2.0f}) {
    const int draws = 20000;
    const auto n = counts({.temperature = temperature, .seed = 77}, draws);
    const auto p = softmax(kLogits, temperature);
    double chi = 0;
    for (size_t i = 0; i < p.size(); i++) chi += std::pow(n[i] - draws * p[i], 2) / (draws * p[i]);
    EXPECT_LT(chi, 25.7) << "temperature " << temperature;
  }
}

TEST(Sampler, FiltersKeepWhatTheySay) {
  // probabilities at temperature 1: .042 .311(1) .115(2) .006 .311(4) .015 (about)
  auto n = counts({.temperature = 1.0f, .top_k = 2}, 2000);
  EXPECT_EQ(n[1] + n[4], 2000);
  n = counts({.temperature = 1.0f, .top_p = 0.85f}, 2000);
  EXPECT_EQ(n[0] + n[3] + n[5], 0);
  EXPECT_GT(n[2], 0);
  n = counts({.temperature = 1.0f, .min_p = 0.3f}, 2000);
  EXPECT_EQ(n[0] + n[3] + n[5], 0);
  EXPECT_GT(n[2], 0);
  n = counts({.temperature = 1.0f, .top_p = 0.0f}, 200);
  EXPECT_EQ(n[1], 200);
}

// Of four equal tokens, whose weights are exact: those that are ever drawn.
std::vector<int> drawn_of_equal(SamplingParams params) {
  params.temperature = 1;
  std::vector<bool> seen(4);
  for (int i = 0; i < 200; i++)
    seen[static_cast<size_t>(sample(std::vector<float>(4, 1.5f), params, {}, i))] = true;
  std::vector<int> out;
  for (int i = 0; i < 4; i++)
    if (seen[static_cast<size_t>(i)]) out.push_back(i);
  return out;
}

TEST(Sampler, FiltersEndExactlyAtTheirBoundary) {
  using Ids = std::vector<int>;
  EXPECT_EQ(drawn_of_equal({.top_p = 0.25f}), (Ids{0}));
  EXPECT_EQ(drawn_of_equal({.top_p = 0.5f}), (Ids{0, 1}));
  EXPECT_EQ(drawn_of_equal({.top_p = std::nextafter(0.5f, 1.0f)}), (Ids{0, 1, 2}));
  EXPECT_EQ(drawn_of_equal({.top_p = 0.75f}), (Ids{0, 1, 2}));
  EXPECT_EQ(drawn_of_equal({.top_p = std::nextafter(1.0f, 0.0f)}), (Ids{0, 1, 2, 3}));
  // Of equal tokens the lower ones stay; top_p is a share of what top_k leaves.
  EXPECT_EQ(drawn_of_equal({.top_k = 1}), (Ids{0}));
  EXPECT_EQ(drawn_of_equal({.top_k = 3}), (Ids{0, 1, 2}));
  EXPECT_EQ(drawn_of_equal({.top_k = 4}), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(drawn_of_equal({.top_k = 2, .top_p = 0.5f}), (Ids{0}));
  // As likely as min_p asks for is likely enough.
  EXPECT_EQ(drawn_of_equal({.min_p = 1}), (Ids{0, 1, 2, 3}));
  const float least = std::log(0.25f);
  const std::vector<float> behind = {least, 0, std::nextafter(least, -2.0f)};
  int lowest = 0;
  for (int i = 0; i < 200; i++) {
    const int token = sample(behind, {.temperature = 1, .min_p = 0.25f}, {}, i);
    EXPECT_NE(token, 2);
    lowest += token == 0;
  }
  EXPECT_GT(lowest, 0);
  // XTC leaves the last of those that reach its threshold, and nothing out where only one does.
  EXPECT_EQ(drawn_of_equal({.xtc_probability = 1, .xtc_threshold = 0.25f}), (Ids{3}));
  EXPECT_EQ(drawn_of_equal({.xtc_probability = 1, .xtc_threshold = std::nextafter(0.25f, 1.0f)}),
            (Ids{0, 1, 2, 3}));
}

TEST(Sampler, ADeviceChoosesOnlyWhatItCan) {
  using Kind = ops::RowSampling::Kind;
  const auto kind = [](const SamplingParams& params) { return row_sampling(params, 3).kind; };
  EXPECT_EQ(kind({}), Kind::greedy);
  EXPECT_EQ(kind({.xtc_probability = 0.5f}), Kind::greedy);
  EXPECT_EQ(kind({.temperature = 1}), Kind::noise);
  EXPECT_EQ(kind({.temperature = 1, .min_p = 0.1f}), Kind::noise);
  EXPECT_EQ(kind({.temperature = 1, .top_p = 0.9f}), Kind::none);
  EXPECT_EQ(kind({.temperature = 1, .top_k = ops::kMostTopK, .top_p = 0.9f}), Kind::top_k);
  EXPECT_EQ(kind({.temperature = 1, .top_k = ops::kMostTopK + 1}), Kind::none);
  EXPECT_EQ(kind({.temperature = 1, .xtc_probability = 0.5f}), Kind::none);
  EXPECT_EQ(kind({.repetition_penalty = 1.1f}), Kind::none);
  EXPECT_EQ(kind({.logit_bias = {{1, 2.0f}}}), Kind::none);
}

TEST(Sampler, UniformNumbersAreUniform) {
  std::vector<int> bins(16);
  for (int i = 0; i < 16000; i++) {
    const double u = counter_uniform(3, i, 7);
    ASSERT_TRUE(u > 0 && u < 1);
    bins[static_cast<int>(u * 16)]++;
  }
  double chi = 0;
  for (int n : bins) chi += std::pow(n - 1000.0, 2) / 1000.0;
  EXPECT_LT(chi, 44.3);  // 15 degrees of freedom, p = 1e-4
}

// Logits of a small vocabulary with a few likely tokens and a tail.
std::vector<float> random_logits(uint64_t seed, int vocab, float scale) {
  std::vector<float> out;
  for (int i = 0; i < vocab; i++)
    out.push_back(scale *
                  static_cast<float>(std::log(counter_uniform(seed, i, 0) / counter_uniform(seed, i, 1))));
  return out;
}

// What sample() should draw from: softmax(logits / temperature), restricted to the top_k largest, of these to
// the fewest that reach top_p, of these to those at least min_p as likely as the first.
std::vector<double> distribution(const std::vector<float>& logits, const SamplingParams& params) {
  auto p = softmax(logits, params.temperature);
  std::vector<int> order(p.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return logits[a] > logits[b]; });
  size_t keep = order.size();
  if (params.top_k > 0) keep = std::min<size_t>(keep, params.top_k);
  const auto sum = [&](size_t n) {
    double s = 0;
    for (size_t i = 0; i < n; i++) s += p[order[i]];
    return s;
  };
  if (params.top_p < 1) {
    const double total = sum(keep);
    size_t n = 1;
    while (n < keep && sum(n) < params.top_p * total) n++;
    keep = n;
  }
  while (keep > 1 && p[order[keep - 1]] < params.min_p * p[order[0]]) keep--;
  const double total = sum(keep);
  for (size_t i = 0; i < order.size(); i++) p[order[i]] = i < keep ? p[order[i]] / total : 0;
  return p;
}

struct ChiSquare {
  double value = 0;
  int freedom = -1;
  // The value that chance exceeds with p = 1e-4 (Wilson and Hilferty 1931: the cube root is nearly normal).
  double limit() const {
    const double v = 2.0 / (9 * freedom);
    return freedom * std::pow(1 - v + 3.719 * std::sqrt(v), 3);
  }
};

// Counts against probabilities; tokens expected less than 5 times count together.
ChiSquare chi_square(const std::vector<int>& counts, const std::vector<double>& p) {
  ChiSquare out;
  const double draws = std::accumulate(counts.begin(), counts.end(), 0);
  double rare = 0, rare_count = 0;
  const auto add = [&](double expected, double count) {
    out.value += (count - expected) * (count - expected) / expected;
    out.freedom++;
  };
  for (size_t i = 0; i < p.size(); i++) {
    EXPECT_TRUE(p[i] > 0 || counts[i] == 0) << "token " << i << " was left out";
    if (p[i] * draws >= 5)
      add(p[i] * draws, counts[i]);
    else
      rare += p[i] * draws, rare_count += counts[i];
  }
  if (rare > 0) add(rare, rare_count);
  return out;
}

// 12 settings with fixed seeds, each against the value that chance exceeds once in 10,000 times.
TEST(Sampler, ManyDrawsFitTheDistribution) {
  constexpr int kDraws = 40000, kVocab = 60;
  const auto logits = random_logits(5, kVocab, 1.5f);
  const SamplingParams settings[] = {{.temperature = 0.3f},
                                     {.temperature = 0.7f},
                                     {.temperature = 1.0f},
                                     {.temperature = 2.5f},
                                     {.temperature = 1.0f, .top_k = 2},
                                     {.temperature = 1.0f, .top_k = 20},
                                     {.temperature = 2.0f, .top_p = 0.5f},
                                     {.temperature = 0.8f, .top_p = 0.95f},
                                     {.temperature = 1.0f, .min_p = 0.05f},
                                     {.temperature = 0.9f, .top_k = 30, .top_p = 0.9f},
                                     {.temperature = 1.5f, .top_p = 0.8f, .min_p = 0.02f},
                                     {.temperature = 1.2f, .top_k = 12, .top_p = 0.9f, .min_p = 0.1f}};
  uint64_t seed = 100;
  for (SamplingParams params : settings) {
    params.seed = seed++;
    std::vector<int> counts(kVocab);
    for (int i = 0; i < kDraws; i++) counts[sample(logits, params, {}, i)]++;
    const auto fit = chi_square(counts, distribution(logits, params));
    EXPECT_LT(fit.value, fit.limit()) << "temperature " << params.temperature << ", top_k " << params.top_k
                                      << ", top_p " << params.top_p << ", min_p " << params.min_p;
    // A twentieth off would be seen.
    if (params.top_k + params.min_p > 0 || params.top_p < 1) continue;
    SamplingParams other = params;
    other.temperature *= 1.05f;
    const auto misfit = chi_square(counts, distribution(logits, other));
    EXPECT_GT(misfit.value, misfit.limit()) << "temperature " << params.temperature;
  }
}

// At the positions that XTC chooses, the likeliest of the tokens above the threshold are never drawn; at the
// others the draw is the one without it.
TEST(Sampler, XtcExcludesTopChoices) {
  const std::vector<float> logits = {std::log(0.4f), std::log(0.3f), std::log(0.2f), std::log(0.1f)};
  const SamplingParams plain{.temperature = 1.0f, .seed = 8};
  SamplingParams xtc = plain;
  xtc.xtc_probability = 0.5f;
  xtc.xtc_threshold = 0.15f;
  constexpr int kDraws = 20000;
  int excluded = 0;
  std::vector<int> counts(4);
  for (int i = 0; i < kDraws; i++) {
    const int token = sample(logits, xtc, {}, i);
    EXPECT_EQ(token, sample(logits, xtc, {}, i));
    if (counter_uniform(xtc.seed, i, UINT32_MAX) < 0.5) {
      excluded++;
      counts[token]++;
    } else {
      ASSERT_EQ(token, sample(logits, plain, {}, i));
    }
  }
  EXPECT_NEAR(excluded, kDraws / 2, 300);
  EXPECT_EQ(counts[0] + counts[1], 0);
  EXPECT_NEAR(counts[2], excluded * 2 / 3, 200);
  xtc.xtc_probability = 1;
  xtc.xtc_threshold = 0.35f;  // one token alone is never excluded
  for (int i = 0; i < 1000; i++) ASSERT_EQ(sample(logits, xtc, {}, i), sample(logits, plain, {}, i));
  xtc.temperature = 0;
  xtc.xtc_threshold = 0;
  EXPECT_EQ(sample(logits, xtc, {}, 0), 0);
}

// Positions are drawn independently: pairs of neighbours fit the product.
TEST(Sampler, NeighboursAreIndependent) {
  constexpr int kDraws = 40000;
  const SamplingParams params{.temperature = 1.0f, .seed = 31};
  const auto p = softmax(kLogits, 1.0);
  const size_t n = p.size();
  std::vector<int> counts(n * n);
  std::vector<double> product(n * n);
  for (int i = 0; i < kDraws; i++)
    counts[sample(kLogits, params, {}, 2 * i) * n + sample(kLogits, params, {}, 2 * i + 1)]++;
  for (size_t i = 0; i < n * n; i++) product[i] = p[i / n] * p[i % n];
  const auto fit = chi_square(counts, product);
  EXPECT_LT(fit.value, fit.limit());
}

// Some tokens' logits with their ids: what all of them would give if the others could not be drawn.
TEST(Sampler, PartOfTheVocabularyMeetsTheSameNoise) {
  constexpr int kVocab = 60;
  for (const SamplingParams& params :
       {SamplingParams{}, SamplingParams{.temperature = 1.0f, .seed = 3},
        SamplingParams{.temperature = 0.8f, .top_k = 9, .top_p = 0.9f, .seed = 4},
        SamplingParams{.temperature = 2.0f, .min_p = 0.05f, .seed = 5}}) {
    int agreed = 0;
    for (int i = 0; i < 2000; i++) {
      const auto logits = random_logits(1000 + i, kVocab, 1);
      std::vector<float> masked = logits, part;
      std::vector<int> ids;
      for (int id = 0; id < kVocab; id++) {
        if (counter_uniform(9, i, id) < 0.3) {
          masked[id] = -INFINITY;
        } else {
          part.push_back(logits[id]);
          ids.push_back(id);
        }
      }
      const int drawn = sample(part, params, {}, i, ids);
      ASSERT_EQ(drawn, sample(masked, params, {}, i));
      agreed += drawn == sample(logits, params, {}, i);
    }
    EXPECT_GT(agreed, 1000) << "a draft from 70 % of the tokens is mostly right";
  }
}

// Speculation over a chain whose next token depends on the last: the draft comes from another distribution
// with the same noise, and is right when the target says the same. Token for token it is what drawing from
// the target alone gives, after every token the next one is distributed as the target's softmax, and drafts
// are right more often than two independent draws would agree.
TEST(Sampler, SpeculationDrawsFromTheTarget) {
  constexpr int kDraws = 60000, kVocab = 12, kDepth = 4;
  std::vector<std::vector<float>> target, draft;
  for (int i = 0; i < kVocab; i++) {
    target.push_back(random_logits(40 + i, kVocab, 1));
    draft.push_back(target.back());
    const auto noise = random_logits(80 + i, kVocab, 0.5f);
    for (int j = 0; j < kVocab; j++) draft.back()[j] += noise[j];
  }
  for (const SamplingParams& params :
       {SamplingParams{.temperature = 1.0f, .seed = 6},
        SamplingParams{.temperature = 0.7f, .top_k = 8, .top_p = 0.95f, .seed = 7}}) {
    std::vector<int> tokens = {0};
    int drafted = 0, accepted = 0;
    while (tokens.size() < kDraws) {
      std::vector<int> drafts;
      for (int last = tokens.back(); drafts.size() < kDepth; last = drafts.back())
        drafts.push_back(sample(draft[last], params, {}, tokens.size() + drafts.size()));
      bool right = true;
      for (size_t row = 0; right; row++) {
        tokens.push_back(sample(target[tokens.back()], params, {}, tokens.size()));
        right = row < kDepth && tokens.back() == drafts[row];
        drafted += row < kDepth;
        accepted += right;
      }
    }
    std::vector<std::vector<int>> counts(kVocab, std::vector<int>(kVocab));
    ChiSquare all{0, 0};
    double independent = 0;
    for (size_t i = 1; i < tokens.size(); i++) {
      ASSERT_EQ(tokens[i], sample(target[tokens[i - 1]], params, {}, i)) << "position " << i;
      counts[tokens[i - 1]][tokens[i]]++;
    }
    for (int i = 0; i < kVocab; i++) {
      const auto p = distribution(target[i], params), q = distribution(draft[i], params);
      const double times = std::accumulate(counts[i].begin(), counts[i].end(), 0);
      if (times < 200) continue;
      const auto fit = chi_square(counts[i], p);
      EXPECT_LT(fit.value, fit.limit()) << "after token " << i;
      all = {all.value + fit.value, all.freedom + fit.freedom};
      for (int j = 0; j < kVocab; j++) independent += times / kDraws * p[j] * q[j];
    }
    EXPECT_LT(all.value, all.limit());
    EXPECT_GT(all.freedom, 40);
    EXPECT_GT(accepted, 1.3 * independent * drafted);
  }
}

}  // namespace
}  // namespace anabranch
