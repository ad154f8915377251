// Filters, Mirostat and DRY against what tools/make_sampler_goldens.py computes from their definitions.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <numeric>

#include "base/json.h"
#include "decode/filters.h"
#include "decode/sampler.h"
#include "tokenizer/tokenizer.h"

namespace anabranch {
namespace {

constexpr int kDraws = 10000;

const Json& goldens() {
  static const Json all = [] {
    std::ifstream file(ANABRANCH_SOURCE_DIR "/tests/decode/data/samplers.json");
    return parse_json(std::string(std::istreambuf_iterator<char>(file), {})).value();
  }();
  return all;
}

SamplingParams params_of(const Json& json) {
  SamplingParams p;
  p.temperature = json.value("temperature", 1.0f);
  p.top_k = json.value("top_k", 0);
  p.top_p = json.value("top_p", 1.0f);
  p.min_p = json.value("min_p", 0.0f);
  p.top_n_sigma = json.value("top_n_sigma", 0.0f);
  p.typical_p = json.value("typical_p", 1.0f);
  p.dynatemp_range = json.value("dynatemp_range", 0.0f);
  p.dynatemp_exponent = json.value("dynatemp_exponent", 1.0f);
  p.mirostat = json.value("mirostat", 0);
  p.mirostat_tau = json.value("mirostat_tau", 5.0f);
  p.mirostat_eta = json.value("mirostat_eta", 0.1f);
  p.dry.multiplier = json.value("dry_multiplier", 0.0f);
  p.dry.base = json.value("dry_base", 1.75f);
  p.dry.allowed_length = json.value("dry_allowed_length", 2);
  p.dry.window = json.value("dry_penalty_last_n", -1);
  p.dry.breakers = json.value("dry_sequence_breakers", p.dry.breakers);
  return p;
}

// Tokens that were left out are never drawn. For the others, a count differs from its mean by more than five
// standard deviations, and a few more for small numbers, once in more than a million tries.
void expect_drawn_from(const std::vector<int>& counts, const std::vector<double>& p,
                       const std::string& what) {
  for (size_t i = 0; i < p.size(); i++) {
    const double mean = kDraws * p[i];
    const double most_off = p[i] > 0 ? 5 * std::sqrt(mean * (1 - p[i])) + 6 : 0;
    EXPECT_LE(std::abs(counts[i] - mean), most_off) << what << ": token " << i;
  }
}

TEST(Samplers, DrawFromTheirDefinitions) {
  uint64_t seed = 1;
  for (const Json& one : goldens()["filters"]) {
    SamplingParams params = params_of(one["params"]);
    params.seed = seed++;
    const std::vector<float> logits = one["logits"];
    std::vector<int> counts(logits.size());
    for (int i = 0; i < kDraws; i++) counts[static_cast<size_t>(sample(logits, params, {}, i))]++;
    expect_drawn_from(counts, one["probabilities"], one["params"].dump());
  }
}

// At each token of an answer: the distribution with mu as the tokens before have left it, and the mu that
// each token would leave.
TEST(Samplers, MirostatFollowsItsDefinition) {
  for (const Json& chain : goldens()["chains"]) {
    SamplingParams params = params_of(chain["params"]);
    TokenHistory history(params, std::vector<int>{1, 2});
    for (const Json& step : chain["steps"]) {
      params.seed++;
      const std::vector<float> logits = step["logits"];
      const std::vector<double> after = step["mu_after"];
      std::vector<int> counts(logits.size());
      double mu = NAN;
      for (int i = 0; i < kDraws; i++) {
        const Drawn drawn = draw(logits, params, history, i);
        counts[static_cast<size_t>(drawn.token)]++;
        ASSERT_NEAR(*drawn.mu, after[static_cast<size_t>(drawn.token)], 1e-5);
        if (drawn.token == step["token"]) mu = *drawn.mu;
      }
      expect_drawn_from(counts, step["probabilities"], chain["params"].dump());
      history.push(step["token"], mu);
    }
  }
}

TEST(Samplers, MirostatsStateIsThatOfTheTokens) {
  SamplingParams params;
  params.mirostat = 2;
  params.mirostat_tau = 3;
  params.temperature = 1;
  TokenHistory history(params, {});
  EXPECT_EQ(history.mu(), 6);
  history.push(4, 5.5);
  history.push(7);  // not drawn: nothing is learnt
  EXPECT_EQ(history.mu(), 5.5);
  history.push(9, 2.0);
  history.pop();
  history.pop();
  EXPECT_EQ(history.mu(), 5.5);
  history.pop();
  EXPECT_EQ(history.mu(), 6);
  // In place of the filters, and greedy at temperature 0.
  const std::vector<float> logits = {1, 5, 4.9f, 4.8f};
  params.top_k = 1;
  std::vector<int> counts(4);
  for (int i = 0; i < 1000; i++) counts[static_cast<size_t>(sample(logits, params, history, i))]++;
  EXPECT_GT(counts[3], 100);
  params.temperature = 0;
  EXPECT_EQ(draw(logits, params, history, 0).token, 1);
  EXPECT_FALSE(draw(logits, params, history, 0).mu);
}

TEST(Samplers, OddLogitsAreNoTrouble) {
  for (const int kind : {0, 1, 2}) {
    std::vector<float> logits(50, -INFINITY);
    logits[7] = 2;
    if (kind == 1) std::fill(logits.begin(), logits.end(), 3.0f);
    if (kind == 2) logits[9] = -3e38f, logits[11] = 3e38f;
    for (SamplingParams params :
         {SamplingParams{.temperature = 1, .top_n_sigma = 1},
          SamplingParams{.temperature = 1, .typical_p = 0.3f},
          SamplingParams{.temperature = 0, .typical_p = 0.3f},
          SamplingParams{.temperature = 1, .dynatemp_range = 2},
          SamplingParams{.temperature = 1, .mirostat = 1}, SamplingParams{.temperature = 1, .mirostat = 2}}) {
      const TokenHistory history(params, {});
      for (int i = 0; i < 100; i++) {
        const int token = sample(logits, params, history, i);
        ASSERT_GE(token, 0) << kind;
        ASSERT_TRUE(std::isfinite(logits[static_cast<size_t>(token)])) << kind;
      }
    }
  }
}

TEST(Samplers, TheBestTokensAreNeverTooFarFromTheBest) {
  const auto kept = [](const std::vector<float>& logits, float n) {
    std::vector<Candidate> list;
    for (size_t i = 0; i < logits.size(); i++) list.push_back({logits[i], static_cast<int>(i)});
    keep_near_best(list, logits, n);
    std::vector<int> tokens;
    for (const Candidate& candidate : list) tokens.push_back(candidate.token);
    return tokens;
  };
  EXPECT_EQ(kept({3, 3, 3, 3}, 0.0001f), (std::vector{0, 1, 2, 3}));
  EXPECT_EQ(kept({1, 3, 2, 3}, 0.0001f), (std::vector{1, 3}));
  EXPECT_EQ(kept({-1, 1}, 2), (std::vector{0, 1})) << "exactly two deviations below";
}

TEST(Samplers, OnlyTheHostHasThem) {
  using Kind = ops::RowSampling::Kind;
  const auto kind = [](const SamplingParams& params) { return row_sampling(params, 3).kind; };
  SamplingParams dry;
  dry.dry.multiplier = 1;
  EXPECT_EQ(kind(dry), Kind::none);
  EXPECT_EQ(kind({.temperature = 1, .top_n_sigma = 1}), Kind::none);
  EXPECT_EQ(kind({.temperature = 1, .typical_p = 0.5f}), Kind::none);
  EXPECT_EQ(kind({.temperature = 1, .dynatemp_range = 0.5f}), Kind::none);
  EXPECT_EQ(kind({.temperature = 1, .mirostat = 1}), Kind::none);
  EXPECT_EQ(kind({.temperature = 1, .top_k = 1, .mirostat = 1}), Kind::none);
  // These choose another token than the likeliest also at temperature 0.
  EXPECT_EQ(kind({.typical_p = 0.5f}), Kind::none);
  EXPECT_EQ(kind({.dynatemp_range = 0.5f}), Kind::none);
  EXPECT_EQ(kind({.top_n_sigma = 1}), Kind::greedy);
  EXPECT_EQ(kind({.mirostat = 2}), Kind::greedy);
}

// A tokenizer whose tokens are these words, from id 1 on.
std::shared_ptr<const Tokenizer> tokenizer_of(const Json& words) {
  GgufVocab vocab;
  vocab.model = "llama";
  vocab.tokens = {"<unk>"};
  vocab.types = {2};
  for (const Json& word : words) {
    vocab.tokens.push_back(word == " " ? "\u2581" : word.get<std::string>());
    vocab.types.push_back(1);
  }
  vocab.scores.assign(vocab.tokens.size(), 0);
  vocab.unk = 0;
  vocab.add_space_prefix = false;
  auto made = Tokenizer::from_gguf(vocab);
  EXPECT_TRUE(made.ok()) << made.error().message;
  return *made;
}
std::shared_ptr<const Tokenizer> words() {
  return tokenizer_of(goldens()["words"]);
}

TEST(Samplers, DryFindsRepetitions) {
  const auto tokenizer = words();
  size_t penalised = 0;
  for (const Json& one : goldens()["histories"]) {
    const SamplingParams params = params_of(one["params"]);
    std::vector<int> tokens = one["tokens"];
    for (int& token : tokens) token++;
    const auto prompt = one["prompt"].get<size_t>();
    TokenHistory history(params, std::span(tokens).first(prompt), tokenizer.get());
    for (const int token : std::span(tokens).subspan(prompt)) history.push(token);
    // Drafts come and go.
    for (int i = 0; i < 3; i++) history.push(1 + i);
    for (int i = 0; i < 3; i++) history.pop();
    std::map<std::string, double> found;
    for (const auto& [token, length] : history.repetitions().next())
      found[std::to_string(token - 1)] = history.repetitions().penalty(length);
    ASSERT_EQ(found.size(), one["penalties"].size()) << one.dump();
    for (const auto& [token, penalty] : one["penalties"].items())
      ASSERT_NEAR(found[token], penalty.get<double>(), 1e-5 * penalty.get<double>()) << one.dump();
    penalised += found.size();
  }
  EXPECT_GT(penalised, 300u);
}

TEST(Samplers, DryChangesLogits) {
  SamplingParams params;
  params.dry.multiplier = 0.5f;
  params.dry.base = 2;
  params.logit_bias = {{5, 1.0f}};
  // 1 2 3 was there, and 1 2 4: 3 and 4 would lengthen a repetition of two tokens, 5 none.
  const TokenHistory history(params, std::vector<int>{1, 2, 3, 1, 2, 4, 1, 2});
  std::vector<float> logits(8, 0.0f);
  logits[3] = 1.4f, logits[4] = 1.3f, logits[6] = 0.8f;
  EXPECT_EQ(sample(logits, params, history, 0), 5);
  params.logit_bias.clear();
  EXPECT_EQ(sample(logits, params, history, 0), 3);
  logits[6] = 0.95f;
  EXPECT_EQ(sample(logits, params, history, 0), 6);
  // Tokens of part of the vocabulary, for drafts.
  EXPECT_EQ(sample(std::vector<float>{1.4f, 0.95f}, params, history, 0, std::vector<int>{3, 6}), 6);
  // Penalties stay numbers.
  params.dry.base = 100;
  params.dry.multiplier = 100;
  const TokenHistory same(params, std::vector<int>(1000, 2));
  logits.assign(8, -1.0f);
  logits[2] = 50;
  EXPECT_NE(sample(logits, params, same, 0), 2);
  EXPECT_TRUE(std::isfinite(same.repetitions().penalty(999)));
}

// What has no text of its own is a border: tokens of images.
TEST(Samplers, DryDoesNotReachOverImages) {
  SamplingParams params;
  params.dry.multiplier = 1;
  const auto tokenizer = words();
  const int image = 1 << 30;
  const TokenHistory whole(params, std::vector<int>{1, 2, 3, 4, 1, 2, 3}, tokenizer.get());
  EXPECT_EQ(whole.repetitions().next().at(4), 3);
  const TokenHistory cut(params, std::vector<int>{1, image, 2, 3, 4, 1, image, 2, 3}, tokenizer.get());
  EXPECT_EQ(cut.repetitions().next().at(4), 2);
}

// A breaker counts by its end, also if its beginning lies before the window.
TEST(Samplers, DryBreakersReachOverTheEdgeOfTheWindow) {
  const auto tokenizer = tokenizer_of({"a", "b", "Y", "Z"});
  SamplingParams params;
  params.dry.multiplier = 1;
  params.dry.window = 8;
  params.dry.breakers = {"Zaba"};
  for (const auto& [before, length] : {std::pair(4, 5), {3, 6}}) {
    const TokenHistory history(params, std::vector<int>{3, before, 1, 2, 1, 2, 1, 2, 1, 2}, tokenizer.get());
    EXPECT_EQ(history.repetitions().next().at(1), length) << before;
  }
}

// As long as a context may be; everything the same is the worst.
TEST(Samplers, DryTakesTimeInProportionToItsWindow) {
  SamplingParams params;
  params.dry.multiplier = 1;
  const TokenHistory history(params, std::vector<int>(1 << 20, 3));
  EXPECT_EQ(history.repetitions().next().at(3), (1 << 20) - 1);
}

}  // namespace
}  // namespace anabranch
