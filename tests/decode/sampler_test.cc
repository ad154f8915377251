#include "decode/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
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
  for (int i = 0; i < draws; i++) n[sample(kLogits, params, i)]++;
  return n;
}

TEST(Sampler, GreedyTakesTheLowestOfEqualMaxima) {
  EXPECT_EQ(sample(kLogits, {}, 0), 1);
  EXPECT_EQ(sample(kLogits, {.temperature = 2.0f, .top_k = 1, .seed = 5}, 9), 1);
}

TEST(Sampler, LogitsThatAreNoNumbersAreErrors) {
  for (const float temperature : {0.0f, 1.0f}) {
    SamplingParams params;
    params.temperature = temperature;
    for (size_t at = 0; at < 3; at++)
      for (const float bad : {NAN, INFINITY}) {
        std::vector<float> logits = {1, 2, 3};
        logits[at] = bad;
        EXPECT_THROW(sample(logits, params, 0), std::runtime_error) << bad << " at " << at;
      }
    const std::vector<float> masked = {-INFINITY, 2, -INFINITY};
    EXPECT_EQ(sample(masked, params, 0), 1);
  }
}

TEST(Sampler, IsAFunctionOfSeedAndPosition) {
  const SamplingParams a{.temperature = 1.0f, .seed = 1}, b{.temperature = 1.0f, .seed = 2};
  int different = 0;
  for (int i = 0; i < 200; i++) {
    EXPECT_EQ(sample(kLogits, a, i), sample(kLogits, a, i));
    different += sample(kLogits, a, i) != sample(kLogits, b, i);
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

}  // namespace
}  // namespace anabranch
