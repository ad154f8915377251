// Memory of unequal sequences, and prompts that leave no room in a step.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "engine/scheduler.h"

namespace anabranch {
namespace {

using Ids = std::vector<uint64_t>;

constexpr SchedulerOptions kFewOptions{
    .prefill_chunk = 256, .max_running = 8, .max_queue = 64, .max_gap_s = 0};

// A step of the plan, in which a sequence whose tokens were all known gets one more.
void run_step(Scheduler& s, double seconds) {
  const StepPlan plan = s.plan();
  s.took(plan, seconds);
  for (const ScheduledTokens& scheduled : plan.scheduled)
    s.advanced(scheduled.id, scheduled.tokens, scheduled.last ? 1 : 0);
}

TEST(SchedulerMemory, ASmallRequestDoesNotPassABigOneThatWaitsForMemory) {
  Scheduler s(kFewOptions);
  s.set_bytes({.fixed = 0, .per_token = 1});
  s.set_budget(10 * kKvBlock);
  ASSERT_TRUE(s.add(1, 5 * kKvBlock));
  ASSERT_EQ(s.admit(), Ids{1});
  ASSERT_TRUE(s.add(2, 6 * kKvBlock));
  ASSERT_TRUE(s.add(3, 1));
  EXPECT_EQ(s.admit(), Ids{}) << "there is memory for the small one only";
  s.remove(1);
  EXPECT_EQ(s.admit(), (Ids{2, 3}));
}

// While small requests come and go, so that there is always room for one of them.
TEST(SchedulerMemory, ABigRequestIsNotStarvedBySmallOnes) {
  Scheduler s(kFewOptions);
  s.set_bytes({.fixed = 0, .per_token = 1});
  s.set_budget(8 * kKvBlock);
  Ids small;
  uint64_t next = 10;
  const auto come = [&] {
    ASSERT_TRUE(s.add(next, 1));
    small.push_back(next++);
  };
  for (int i = 0; i < 4; i++) come();
  s.admit();
  ASSERT_TRUE(s.add(1, 5 * kKvBlock));
  bool big_runs = false;
  for (int step = 0; step < 20 && !big_runs; step++) {
    s.remove(small.front());
    small.erase(small.begin());
    come();
    const Ids admitted = s.admit();
    big_runs = std::ranges::find(admitted, 1u) != admitted.end();
  }
  EXPECT_TRUE(big_runs);
}

TEST(SchedulerMemory, WhatComesBesideTheTokensCounts) {
  constexpr uint64_t kImages = 3 * kKvBlock;
  Scheduler s(kFewOptions);
  s.set_bytes({.fixed = 0, .per_token = 1});
  s.set_budget(9 * kKvBlock);
  ASSERT_TRUE(s.add(1, 100, 0, {}, kImages));
  ASSERT_TRUE(s.add(2, 100, 0, {}, kImages));
  ASSERT_TRUE(s.add(3, 100, 0, {}, kImages));
  EXPECT_EQ(s.admit(), (Ids{1, 2})) << "three take 12 blocks";
  EXPECT_EQ(s.bytes(), 8u * kKvBlock);
  EXPECT_TRUE(s.preempt().empty());
  s.set_budget(7 * kKvBlock);
  EXPECT_EQ(s.preempt(), Ids{2});
  EXPECT_EQ(s.bytes(), 4u * kKvBlock);
  EXPECT_EQ(s.admit(), Ids{});
  s.set_budget(9 * kKvBlock);
  EXPECT_EQ(s.admit(), Ids{2});
}

// Only the memory beside the tokens keeps the second one out.
TEST(SchedulerMemory, NobodyIsAdmittedWithoutRoomForItsImages) {
  Scheduler s(kFewOptions);
  s.set_bytes({.fixed = 0, .per_token = 1});
  s.set_budget(4 * kKvBlock);
  ASSERT_TRUE(s.add(1, 100));
  ASSERT_EQ(s.admit(), Ids{1});
  ASSERT_TRUE(s.add(2, 100, 0, {}, 2 * kKvBlock));
  EXPECT_EQ(s.admit(), Ids{});
  EXPECT_TRUE(s.preempt().empty());
  s.set_budget(5 * kKvBlock);
  EXPECT_EQ(s.admit(), Ids{2});
  EXPECT_TRUE(s.preempt().empty()) << "who is admitted is not preempted at once";
}

TEST(SchedulerMemory, AsManyArePreemptedAsNeeded) {
  Scheduler s(kFewOptions);
  s.set_bytes({.fixed = 0, .per_token = 1});
  for (uint64_t id = 1; id <= 4; id++) ASSERT_TRUE(s.add(id, 100));
  ASSERT_EQ(s.admit(), (Ids{1, 2, 3, 4}));
  s.set_budget(3 * kKvBlock);
  EXPECT_EQ(s.preempt(), Ids{4});
  s.set_budget(1);
  EXPECT_EQ(s.preempt(), (Ids{3, 2}));
  EXPECT_TRUE(s.preempt().empty()) << "the last one goes on over the budget";
}

// The one that is waited for was preempted, and comes later in the order.
TEST(SchedulerMemory, NobodyWaitsForAPrefixOfOneThatDoesNotRun) {
  Scheduler s(SchedulerOptions{.prefill_chunk = 64, .max_running = 2, .max_queue = 64, .max_gap_s = 0});
  s.set_bytes({.fixed = 0, .per_token = 1});
  ASSERT_TRUE(s.add(1, 600, 1));
  ASSERT_EQ(s.admit(), Ids{1});
  run_step(s, 0.01);
  ASSERT_TRUE(s.add(2, 600, 0));
  ASSERT_EQ(s.admit(), Ids{2});
  s.wait_for(2, 1, 300);
  EXPECT_EQ(s.admit(), Ids{});
  ASSERT_TRUE(s.add(3, 600, 0));
  ASSERT_EQ(s.admit(), Ids{}) << "2 keeps its place";
  s.isolate(1, 600);
  EXPECT_EQ(s.admit(), (Ids{2, 3}));
}

// One chunk takes all of a step's time, so only the order decides who is read.
TEST(SchedulerFairness, ALongPromptIsReadBesideAStreamOfShortOnes) {
  Scheduler s(SchedulerOptions{.prefill_chunk = 64, .max_running = 8, .max_queue = 64, .max_gap_s = 0});
  ASSERT_TRUE(s.add(1, 5));
  s.admit();
  run_step(s, 5);
  run_step(s, 1);  // decodes from now on
  ASSERT_TRUE(s.add(2, 400));
  s.admit();
  uint64_t next = 10;
  int64_t shorts_read = 0;
  bool done = false;
  for (int step = 0; step < 2000 && !done; step++) {
    if (s.queued() + s.running() < 6) {
      ASSERT_TRUE(s.add(next++, 16));
    }
    s.admit();
    const StepPlan plan = s.plan();
    EXPECT_LE(std::ranges::count_if(plan.scheduled, [](const auto& part) { return part.id > 1; }), 1)
        << "a prompt's chunk is all that fits";
    s.took(plan, 1.0 + 1.0 * plan.prompt_tokens);
    for (const ScheduledTokens& scheduled : plan.scheduled) {
      s.advanced(scheduled.id, scheduled.tokens, scheduled.last ? 1 : 0);
      if (scheduled.id == 2) done |= scheduled.last;
      if (scheduled.id < 10) continue;
      shorts_read += scheduled.tokens;
      if (scheduled.last) s.remove(scheduled.id);
    }
  }
  EXPECT_TRUE(done);
  // Those that came while fewer than its 400 tokens had been read go first, and that is all.
  EXPECT_GT(shorts_read, 200);
  EXPECT_LT(shorts_read, 1600);
}

// Each prompt would add at least a chunk of kChunkGrid tokens.
TEST(SchedulerFairness, ManyPromptsAddNoMoreToAStepThanOne) {
  Scheduler s(SchedulerOptions{.prefill_chunk = 64, .max_running = 16, .max_queue = 64, .max_gap_s = 0});
  ASSERT_TRUE(s.add(1, 5));
  s.admit();
  run_step(s, 5);
  run_step(s, 1);
  for (uint64_t id = 2; id < 12; id++) ASSERT_TRUE(s.add(id, 40));
  for (int i = 0; i < 10; i++) ASSERT_EQ(s.admit(i).size(), 1u);
  for (int step = 0; step < 40; step++) {
    const StepPlan plan = s.plan();
    EXPECT_LE(plan.prompt_tokens, kChunkGrid) << step;
    s.took(plan, 1.0 + 1.0 * plan.prompt_tokens);
    for (const ScheduledTokens& scheduled : plan.scheduled)
      s.advanced(scheduled.id, scheduled.tokens, scheduled.last ? 1 : 0);
  }
}

}  // namespace
}  // namespace anabranch
