#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <vector>

namespace anabranch {
namespace {

TEST(Scheduler, PromptsRunInChunksOnAnAbsoluteGrid) {
  Scheduler s(8, 4);
  ASSERT_TRUE(s.add(1, 19));
  std::vector<int> sizes;
  for (;;) {
    const auto plan = s.plan();
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->id, 1u);
    sizes.push_back(plan->tokens);
    s.advanced(1, plan->tokens, 0);
    if (plan->last) break;
  }
  EXPECT_EQ(sizes, (std::vector<int>{8, 8, 3}));
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
