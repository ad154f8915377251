#include "engine/memory_guard.h"

#include <gtest/gtest.h>

namespace anabranch {
namespace {

constexpr MemoryBudgets kFull{.states = 1000, .cache = 500};
constexpr uint64_t kReserve = 100;

TEST(MemoryGuard, LeavesAllWhileThereIsMemory) {
  MemoryGuard guard(kFull, kReserve);
  EXPECT_EQ(guard.update(5000, {.states = 900, .cache = 500}), kFull);
  EXPECT_EQ(guard.update(150, {.states = 900, .cache = 500}), kFull);
  EXPECT_EQ(guard.update(0, {.states = 900, .cache = 500}), kFull);  // not known
}

TEST(MemoryGuard, TheCacheGivesFirstThenNothingBegins) {
  MemoryGuard guard(kFull, kReserve);
  EXPECT_EQ(guard.update(40, {.states = 700, .cache = 300}), (MemoryBudgets{.states = 1000, .cache = 240}));
  EXPECT_EQ(guard.update(60, {.states = 700, .cache = 40}), (MemoryBudgets{.states = 1000, .cache = 0}))
      << "the cache has just what is missing";
  EXPECT_EQ(guard.update(90, {.states = 700, .cache = 5}), (MemoryBudgets{.states = 700, .cache = 0}));
  EXPECT_EQ(guard.update(50, {.states = 0, .cache = 0}).states, 1u);  // 0 would be no limit
}

TEST(MemoryGuard, GrowsBackWhenMemoryIsFree) {
  MemoryGuard guard(kFull, kReserve);
  guard.update(10, {.states = 600, .cache = 20});
  EXPECT_EQ(guard.update(100, {.states = 600, .cache = 0}), (MemoryBudgets{.states = 600, .cache = 0}));
  // Half of what is beyond the reserve for each.
  EXPECT_EQ(guard.update(180, {.states = 580, .cache = 0}), (MemoryBudgets{.states = 620, .cache = 40}));
  EXPECT_EQ(guard.update(9000, {.states = 620, .cache = 40}), kFull);
}

}  // namespace
}  // namespace anabranch
