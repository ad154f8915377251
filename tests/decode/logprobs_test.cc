#include "decode/logprobs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace anabranch {
namespace {

TEST(Logprobs, AreTheLogOfTheSoftmax) {
  const std::vector<float> logits = {1.0f, 3.0f, 2.0f, -1.0f, 3.0f, 0.0f};
  double total = 0;
  for (const float l : logits) total += std::exp(l);
  double sum = 0;
  for (int token = 0; token < 6; token++) {
    const auto one = logprobs_of(logits, token, 0);
    EXPECT_NEAR(one.logprob, std::log(std::exp(logits[token]) / total), 1e-6);
    EXPECT_TRUE(one.top.empty());
    sum += std::exp(one.logprob);
  }
  EXPECT_NEAR(sum, 1, 1e-6);
}

TEST(Logprobs, TellTheLikeliestInOrder) {
  const std::vector<float> logits = {1.0f, 3.0f, 2.0f, -1.0f, 3.0f, 0.0f};
  const auto tokens = [&](int top) {
    std::vector<int> out;
    for (const auto& t : logprobs_of(logits, 3, top).top) {
      EXPECT_EQ(t.logprob, logprobs_of(logits, t.token, 0).logprob);
      out.push_back(t.token);
    }
    return out;
  };
  EXPECT_EQ(tokens(1), (std::vector<int>{1}));
  EXPECT_EQ(tokens(3), (std::vector<int>{1, 4, 2}));
  EXPECT_EQ(tokens(20), (std::vector<int>{1, 4, 2, 0, 5, 3}));
}

TEST(Logprobs, OfHugeVocabulariesAndLogits) {
  std::vector<float> logits(250000);
  for (size_t i = 0; i < logits.size(); i++) logits[i] = static_cast<float>((i * 7919) % 1000) / 10 + 500;
  const auto all = logprobs_of(logits, 17, 20);
  double total = 0;
  for (const float l : logits) total += std::exp(static_cast<double>(l) - 599.9);
  EXPECT_NEAR(all.top[0].logprob, -std::log(total), 1e-4);
  std::vector<int> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return logits[a] > logits[b]; });
  for (int i = 0; i < 20; i++) EXPECT_EQ(all.top[i].token, order[i]) << i;
}

TEST(Logprobs, StayFinite) {
  const std::vector<float> masked = {-INFINITY, 2, -INFINITY};
  EXPECT_EQ(logprobs_of(masked, 0, 0).logprob, kLeastLogprob);
  EXPECT_EQ(logprobs_of(masked, 1, 3).logprob, 0);
  EXPECT_EQ(logprobs_of(masked, 1, 3).top[2].logprob, kLeastLogprob);
}

}  // namespace
}  // namespace anabranch
