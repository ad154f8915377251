// What steps are expected to cost, from those that were measured.
#include "engine/step_costs.h"

#include <gtest/gtest.h>

namespace anabranch {
namespace {

TEST(StepCosts, NeighboursTellOfCountsThatWereNotSeen) {
  StepCosts costs;
  EXPECT_TRUE(costs.should_measure(8));
  costs.observe({.decoding = 8}, 0.008);
  EXPECT_DOUBLE_EQ(costs.decode_s(8), 0.008);
  EXPECT_DOUBLE_EQ(costs.decode_s(10), 0.008);
  EXPECT_TRUE(costs.should_measure(11));
  EXPECT_DOUBLE_EQ(costs.decode_s(7), 0.007);
  EXPECT_TRUE(costs.should_measure(6));
  costs.observe({.decoding = 10}, 0.010);
  EXPECT_DOUBLE_EQ(costs.decode_s(9), 0.009);
}

// A step in which kernels are compiled takes a second. Were it taken for the usual one, kStall would allow
// prefill of two seconds beside it.
TEST(StepCosts, OneSlowStepIsSoonForgotten) {
  StepCosts costs;
  costs.observe({.decoding = 17}, 1.0);
  costs.observe({.decoding = 24}, 0.006);
  EXPECT_DOUBLE_EQ(costs.decode_s(17), 0.006);
  costs.observe({.decoding = 64}, 1.5);
  costs.observe({.decoding = 64}, 0.011);
  EXPECT_DOUBLE_EQ(costs.decode_s(64), 0.011);
}

// It counts as at most twice as long as expected, and with little weight.
TEST(StepCosts, ADisturbedStepHardlyCounts) {
  StepCosts costs;
  costs.observe({.decoding = 4}, 0.01);
  costs.observe({.decoding = 4}, 1.0);
  EXPECT_LE(costs.decode_s(4), 0.0111);
}

// A machine may become slower, and contexts grow.
TEST(StepCosts, AfterManyPromptsAStepWithoutIsMeasured) {
  StepCosts costs;
  costs.observe({.decoding = 4}, 0.01);
  int steps = 0;
  for (; steps < 100 && !costs.should_measure(4); steps++)
    costs.observe({.decoding = 4, .prompt_tokens = 16, .positions = 100}, 0.02);
  EXPECT_EQ(steps, 32);
  costs.observe({.decoding = 4}, 0.01);
  EXPECT_FALSE(costs.should_measure(4));
}

TEST(StepCosts, NoTokensTakeLessThanNoTime) {
  StepCosts costs;
  uint32_t random = 1;
  const auto below = [&](int most) {
    return static_cast<int>((random = random * 1664525 + 1013904223) >> 8) % most;
  };
  for (int i = 0; i < 2000; i++) {
    const int tokens = 1 + below(2000), positions = below(50000);
    costs.observe({.decoding = below(3), .prompt_tokens = tokens, .positions = 1.0 * tokens * positions},
                  1e-4 * below(1000));
    ASSERT_GE(costs.prefill_s(1, 0), 0) << i;
    ASSERT_GE(costs.prefill_s(1000, 0), costs.prefill_s(1, 0)) << i;
    ASSERT_GE(costs.prefill_s(10, 1e6), costs.prefill_s(10, 0)) << i;
  }
}

// What is the same for each step so far may be so for each few tokens.
TEST(StepCosts, AMuchLargerStepMayCostTheFixedPartSeveralTimes) {
  StepCosts costs;
  costs.observe({.decoding = 1}, 0.001);
  for (int i = 0; i < 200; i++)
    costs.observe({.decoding = 1, .prompt_tokens = i % 2 ? 8 : 16, .positions = 100}, 0.011);
  EXPECT_LT(costs.prefill_s(16, 100), 0.015);
  EXPECT_GT(costs.prefill_s(64, 400), 3 * costs.prefill_s(16, 100));
}

// The ends of prompts make steps of a few tokens. That these cost nothing beside the decoding rows must not
// make a token of a large step seem cheap: a step twice as long as the bound would follow.
TEST(StepCosts, StepsOfFewTokensSayLittleOfWhatATokenCosts) {
  constexpr double kDecode = 5.5e-3, kToken = 48e-6;
  StepCosts costs;
  costs.observe({32, 0, 0}, kDecode);
  for (int i = 0; i < 50; i++) costs.observe({32, 800, 800 * 256.0}, kDecode + 800 * kToken);
  for (int i = 0; i < 20; i++) costs.observe({32, 12, 12 * 500.0}, kDecode);
  EXPECT_GT(costs.prefill_s(800, 800 * 256.0), 0.8 * 800 * kToken);
}

TEST(StepCosts, StepsWithoutStreamsSayNothingOfThoseWith) {
  StepCosts costs;
  costs.observe({4, 0, 0}, 5e-3);
  costs.observe({0, 100, 5000}, 0.1);
  EXPECT_GT(costs.prefill_s(100, 5000), 0.05) << "nothing else is known";
  for (int i = 0; i < 20; i++) costs.observe({4, 100, 5000}, 0.01);
  const double known = costs.prefill_s(100, 5000);
  EXPECT_LT(known, 0.01);
  costs.observe({0, 100, 5000}, 0.1);
  EXPECT_EQ(costs.prefill_s(100, 5000), known);
}

// What tokens cost apart from their positions, attention's part, and the fixed one are told apart by steps
// that differ in them.
TEST(StepCosts, LearnWhatPrefillIsMadeOf) {
  const auto seconds = [](const StepLoad& load) {
    return 0.01 + 0.004 + 5e-5 * load.prompt_tokens + 2e-9 * load.positions;
  };
  StepCosts costs;
  costs.observe({.decoding = 4}, 0.01);
  uint32_t random = 1;
  for (int i = 0; i < 300; i++) {
    random = random * 1664525 + 1013904223;
    const int tokens = 4 << (random >> 24) % 9;
    const double at = (random >> 16) % 256 * 128.0;
    const StepLoad load{.decoding = 4, .prompt_tokens = tokens, .positions = tokens * at};
    costs.observe(load, seconds(load));
    if (i % 30 == 0) costs.observe({.decoding = 4}, 0.01);
  }
  for (const int tokens : {16, 256, 1000})
    for (const double at : {0.0, 4096.0, 32768.0}) {
      const StepLoad load{.decoding = 4, .prompt_tokens = tokens, .positions = tokens * at};
      EXPECT_NEAR(costs.prefill_s(tokens, load.positions), seconds(load) - 0.01,
                  0.1 * (seconds(load) - 0.01));
    }
}

}  // namespace
}  // namespace anabranch
