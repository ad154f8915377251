#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <vector>

namespace anabranch {
namespace {

// The passes of a prompt of which `applied` tokens are known already.
std::vector<int> passes(Scheduler& s, int tokens, int applied) {
  EXPECT_TRUE(s.add(1, tokens));
  s.advanced(1, applied, 0);
  std::vector<int> sizes;
  for (;;) {
    const auto plan = s.plan();
    EXPECT_EQ(plan->id, 1u);
    sizes.push_back(plan->tokens);
    s.advanced(1, plan->tokens, 0);
    if (plan->last) return sizes;
  }
}

TEST(Scheduler, PromptsRunInChunksOnAnAbsoluteGrid) {
  Scheduler s(8, 4);
  for (const auto& [tokens, applied, want] :
       std::vector<std::tuple<int, int, std::vector<int>>>{{1, 0, {1}},
                                                           {12, 0, {12}},
                                                           {13, 0, {8, 5}},
                                                           {29, 0, {8, 8, 8, 5}},
                                                           {40, 7, {9, 8, 8, 8}},
                                                           {40, 3, {5, 8, 8, 8, 8}},
                                                           {40, 39, {1}}}) {
    EXPECT_EQ(passes(s, tokens, applied), want) << tokens << " tokens, " << applied << " applied";
    s.remove(1);
  }
  Scheduler single(1, 4);
  EXPECT_EQ(passes(single, 3, 1), (std::vector<int>{1, 1}));
  passes(s, 19, 0);
  s.advanced(1, 0, 1);
  const auto decode = s.plan();
  EXPECT_EQ(decode->tokens, 1);
  EXPECT_TRUE(decode->last);
  s.advanced(1, 4, 4);  // three drafts were right
  EXPECT_EQ(s.plan()->tokens, 1);
}

TEST(Scheduler, FirstComeFirstServed) {
  Scheduler s(8, 4);
  s.add(1, 1);
  s.add(2, 1);
  EXPECT_EQ(s.plan()->id, 1u);
  EXPECT_EQ(s.running(), 1);
  EXPECT_EQ(s.queued(), 1);
  s.remove(1);
  EXPECT_EQ(s.plan()->id, 2u);
  s.remove(2);
  EXPECT_FALSE(s.plan());
  EXPECT_EQ(s.running() + s.queued(), 0);
}

TEST(Scheduler, RefusesBeyondItsQueue) {
  Scheduler s(8, 2);
  EXPECT_TRUE(s.add(1, 1));
  EXPECT_TRUE(s.add(2, 1));
  EXPECT_TRUE(s.add(3, 1));
  EXPECT_FALSE(s.add(4, 1));
  s.remove(2);
  EXPECT_TRUE(s.add(4, 1));
}

}  // namespace
}  // namespace anabranch
