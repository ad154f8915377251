// Penalties and bias: their formulas, their order, and the history that they count in.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "decode/sampler.h"

namespace anabranch {
namespace {

const std::vector<float> kLogits = {1.0f, 3.0f, 2.0f, -1.0f, 3.0f, 0.0f};

TokenHistory history_of(const SamplingParams& params, const std::vector<int>& prompt,
                        const std::vector<int>& generated) {
  TokenHistory history(params, prompt);
  for (const int token : generated) history.push(token);
  return history;
}

// What the logits become, read off by comparing each token with a reference token of known logit: greedy
// sampling among two.
float changed_logit(float logit, const SamplingParams& params, const TokenHistory& history, int token) {
  // The other token, 99, is in no history here.
  const std::vector<int> ids = {token, 99};
  float low = -1000, high = 1000;
  for (int i = 0; i < 60; i++) {
    const float middle = (low + high) / 2;
    (sample(std::vector<float>{logit, middle}, params, history, 0, ids) == 99 ? high : low) = middle;
  }
  return low;
}

TEST(Penalties, FollowTheirFormulas) {
  const std::vector<int> prompt = {1, 1, 2}, generated = {2, 3, 3, 3};
  SamplingParams presence, frequency, repetition;
  presence.presence_penalty = 0.5f;
  frequency.frequency_penalty = 0.25f;
  repetition.repetition_penalty = 2.0f;
  const auto logit = [&](float l, const SamplingParams& p, int token) {
    return changed_logit(l, p, history_of(p, prompt, generated), token);
  };
  for (const float l : {4.0f, -4.0f}) {
    EXPECT_NEAR(logit(l, presence, 1), l, 1e-3) << "the prompt does not count";
    EXPECT_NEAR(logit(l, presence, 2), l - 0.5, 1e-3);
    EXPECT_NEAR(logit(l, presence, 3), l - 0.5, 1e-3);
    EXPECT_NEAR(logit(l, frequency, 1), l, 1e-3);
    EXPECT_NEAR(logit(l, frequency, 2), l - 0.25, 1e-3);
    EXPECT_NEAR(logit(l, frequency, 3), l - 0.75, 1e-3);
    for (const int token : {1, 2, 3}) EXPECT_NEAR(logit(l, repetition, token), l > 0 ? 2 : -8, 1e-3);
    EXPECT_NEAR(logit(l, repetition, 4), l, 1e-3);
  }
}

TEST(Penalties, LookAtTheAnswersLastTokens) {
  const std::vector<int> prompt = {1, 1, 2}, generated = {2, 3, 3, 3, 4};
  SamplingParams params;
  params.presence_penalty = 0.5f;
  params.frequency_penalty = 0.25f;
  params.presence_window = 2;
  params.frequency_window = 4;
  const auto logit = [&](int token, const TokenHistory& history) {
    return changed_logit(4, params, history, token);
  };
  for (const float repetition : {1.0f, 1.5f}) {  // with the latter the prompt is part of the history
    params.repetition_penalty = repetition;
    TokenHistory history = history_of(params, prompt, generated);
    const double base = 4 / repetition;
    EXPECT_NEAR(logit(1, history), base, 1e-3);
    EXPECT_NEAR(logit(2, history), base, 1e-3) << "out of both windows";
    EXPECT_NEAR(logit(3, history), base - 0.75 - 0.5, 1e-3);
    EXPECT_NEAR(logit(4, history), base - 0.25 - 0.5, 1e-3);
    history.push(4);
    EXPECT_NEAR(logit(3, history), base - 0.5, 1e-3) << "out of the presence penalty's window";
    history.pop();
    EXPECT_NEAR(logit(3, history), base - 0.75 - 0.5, 1e-3) << "a draft that was wrong leaves no trace";
  }
}

TEST(Penalties, ComeInTheirOrder) {
  SamplingParams all;
  all.repetition_penalty = 2.0f;
  all.frequency_penalty = 0.5f;
  all.presence_penalty = 1.0f;
  all.logit_bias = {{3, 10.0f}, {5, -1.0f}};
  const auto history = history_of(all, {5}, {3, 3});
  EXPECT_NEAR(changed_logit(6.0f, all, history, 3), 6.0 / 2 - 0.5 * 2 - 1 + 10, 1e-3);
  EXPECT_NEAR(changed_logit(-6.0f, all, history, 3), -6.0 * 2 - 0.5 * 2 - 1 + 10, 1e-3);
  EXPECT_NEAR(changed_logit(6.0f, all, history, 5), 6.0 / 2 - 1, 1e-3);
  EXPECT_NEAR(changed_logit(6.0f, all, history, 7), 6.0, 1e-3);
}

TEST(Penalties, TheRepetitionWindowMoves) {
  SamplingParams params;
  params.repetition_penalty = 2.0f;
  params.repetition_window = 2;
  TokenHistory history(params, std::vector<int>{1, 2, 3});
  const auto penalised = [&] {
    std::vector<int> out;
    for (int token = 0; token < 6; token++)
      if (changed_logit(8.0f, params, history, token) < 5) out.push_back(token);
    return out;
  };
  EXPECT_EQ(penalised(), (std::vector<int>{2, 3}));
  history.push(4);
  EXPECT_EQ(penalised(), (std::vector<int>{3, 4}));
  history.push(4);
  history.push(5);
  EXPECT_EQ(penalised(), (std::vector<int>{4, 5}));
  history.pop();
  history.pop();
  EXPECT_EQ(penalised(), (std::vector<int>{3, 4}));
  history.pop();
  EXPECT_EQ(penalised(), (std::vector<int>{2, 3}));
}

// Drafts push and pop: afterwards nothing may be left of them.
TEST(Penalties, PopUndoesPush) {
  for (const int window : {0, 1, 3, 50}) {
    SamplingParams params;
    params.repetition_penalty = 1.5f;
    params.frequency_penalty = 0.3f;
    params.repetition_window = window;
    const auto plain = history_of(params, {1, 2, 3, 1}, {4, 1});
    auto history = history_of(params, {1, 2, 3, 1}, {4, 1});
    for (const int token : {1, 9, 3, 3}) history.push(token);
    for (int i = 0; i < 4; i++) history.pop();
    for (int token = 0; token < 10; token++)
      EXPECT_EQ(changed_logit(5.0f, params, history, token), changed_logit(5.0f, params, plain, token))
          << "token " << token << ", window " << window;
  }
}

TEST(Penalties, BiasBansAndForces) {
  for (const float temperature : {0.0f, 1.0f}) {
    SamplingParams ban{.temperature = temperature, .seed = 3}, force = ban;
    ban.logit_bias = {{1, -100.0f}, {4, -100.0f}};
    force.logit_bias = {{3, 100.0f}};  // the least likely
    for (int i = 0; i < 500; i++) {
      const int token = sample(kLogits, ban, {}, i);
      EXPECT_TRUE(token != 1 && token != 4);
      EXPECT_EQ(sample(kLogits, force, {}, i), 3);
    }
  }
}

TEST(Penalties, ChangeTheGreedyChoiceAndTheFilters) {
  SamplingParams params;
  params.presence_penalty = 1.5f;
  EXPECT_EQ(sample(kLogits, params, history_of(params, {}, {1}), 0), 4);
  EXPECT_EQ(sample(kLogits, params, history_of(params, {}, {1, 4}), 0), 2);
  EXPECT_EQ(sample(kLogits, params, history_of(params, {1, 4}, {}), 0), 1) << "the prompt does not count";
  // The penalty comes before top_k, which then keeps other tokens.
  params.temperature = 1.0f;
  params.top_k = 2;
  const auto history = history_of(params, {}, {1});
  for (int i = 0; i < 200; i++) {
    const int token = sample(kLogits, params, history, i);
    EXPECT_TRUE(token == 4 || token == 2) << token;
  }
}

// A draft from part of the vocabulary is penalised as the full one.
TEST(Penalties, MeetTheRightTokensOfAPartialVocabulary) {
  SamplingParams params{.temperature = 1.0f, .seed = 8};
  params.repetition_penalty = 1.7f;
  params.frequency_penalty = 0.7f;
  params.logit_bias = {{2, 1.0f}, {3, 5.0f}};
  const auto history = history_of(params, {0, 3}, {1, 1, 5, 500});  // 500: beyond the vocabulary
  const std::vector<int> ids = {0, 1, 2, 4, 5};
  std::vector<float> some, all = kLogits;
  for (const int id : ids) some.push_back(kLogits[id]);
  all[3] = -INFINITY;
  for (int i = 0; i < 300; i++)
    EXPECT_EQ(sample(some, params, history, i, ids), sample(all, params, history, i));
}

TEST(Penalties, NeutralOnesChangeNothingAndKeepNothing) {
  SamplingParams params{.temperature = 1.0f, .seed = 4};
  const auto history = history_of(params, {1, 2}, {3});
  EXPECT_TRUE(history.counts().empty());
  for (int i = 0; i < 100; i++)
    EXPECT_EQ(sample(kLogits, params, history, i), sample(kLogits, params, {}, i));
}

}  // namespace
}  // namespace anabranch
