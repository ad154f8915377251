// Tokens that a card chooses, and the arithmetic that it shares with the host.
#include <cmath>

#include "decode/choices.h"
#include "ops/draw.h"
#include "ops/open.h"

namespace anabranch {
namespace {

TEST(Choose, ACardEqualsTheHostsSampler) {
  auto device = ops::open_device({.name = "cuda"});
  if (!device) GTEST_SKIP() << device.error().message;
  for (const int vocab : {70, 9001, 151936, 248320, 262144, 262208})
    testing::expect_choices_of_the_host(**device, vocab);
}

TEST(Draw, LogarithmsAndWeightsAreThoseOfTheLibrary) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 100000; i++) {
    const double x =
        std::ldexp(1 + static_cast<double>(random() >> 11) * 0x1p-53, static_cast<int>(i % 60) - 54);
    EXPECT_NEAR(ops::log_of(x), std::log(x), 4e-16 * std::max(0.5, std::abs(std::log(x)))) << x;
    const double below = -30.0 * i / 100000;
    EXPECT_NEAR(static_cast<double>(ops::weight_of(below)), std::exp(below) * 0x1p40, 1.5) << below;
  }
  EXPECT_EQ(ops::weight_of(0), uint64_t{1} << 40);
  const double near = 1 - 0x1p-52;
  EXPECT_NEAR(ops::log_of(near) / std::log(near), 1, 1e-15);
}

TEST(Draw, NoiseIsBelowItsBound) {
  for (uint32_t token = 0; token < 200000; token++) {
    const auto words = ops::random_words(5, 9, token);
    EXPECT_LE(ops::noise_of(words), ops::most_noise(words));
  }
  for (const uint32_t first : {0u, 1u, 0x7FFFFFFFu, 0x80000000u, 0xFFFFFFFEu, 0xFFFFFFFFu})
    for (const uint32_t second : {0u, 0xFFFFFFFFu}) {
      const ops::RandomWords words{first, second};
      EXPECT_LE(ops::noise_of(words), ops::most_noise(words)) << first;
      EXPECT_GT(ops::noise_of(words), ops::kLeastNoise);
    }
}

TEST(Draw, RanksOrderNumbersThenTokens) {
  EXPECT_GT(ops::rank_of(1.0f, 5), ops::rank_of(0.5f, 1));
  EXPECT_GT(ops::rank_of(-1.0f, 5), ops::rank_of(-1.5f, 1));
  EXPECT_GT(ops::rank_of(-0.0f, 1), ops::rank_of(0.0f, 2));
  EXPECT_GT(ops::rank_of(-INFINITY, 1 << 20), 0u);
  for (const float x : {0.0f, 1.5f, -2.25f, INFINITY, -INFINITY}) {
    EXPECT_EQ(ops::value_of(ops::rank_of(x, 7)), x);
    EXPECT_EQ(ops::token_of(ops::rank_of(x, 7)), 7);
  }
}

}  // namespace
}  // namespace anabranch
