// Random schedules: requests of every size and priority come, are cancelled, wait for others, fail together
// and outgrow the memory. Whatever happens, bounds hold in each step, nobody is passed by, and every request
// ends.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "engine/scheduler.h"

namespace anabranch {
namespace {

struct RandomJob {
  int priority = 0, answer = 0;
  int known = 0, applied = 0, made = 0;
  bool running = false, begun = false;
  int held_until = -1;  // a step; -1: it is not held
  uint64_t after = 0;
  int after_tokens = 0;
  int alone = 0, alone_next = 1;
  std::vector<TokenRange> whole;
  uint64_t more_bytes = 0;
  int left() const { return known - applied; }
};

// How often something happened, in all schedules.
struct Happened {
  int steps = 0, ended = 0, preempted = 0, held = 0, waited = 0, failed = 0;
};

class RandomSchedule {
 public:
  RandomSchedule(uint32_t seed, Happened& happened)
      : happened_(happened),
        random_(seed),
        options_{.prefill_chunk = pick({1, 7, 32, 64, 256}),
                 .max_running = number(1, 6),
                 .max_queue = 40,
                 .max_gap_s = pick({0.0, 0.05})},
        scheduler_(options_) {
    bytes_ = {.fixed = static_cast<uint64_t>(number(0, 500)), .per_token = 1};
    scheduler_.set_bytes(bytes_);
    change_budget();
  }

  void run() {
    for (int arrivals = number(3, 14); arrivals > 0 || !jobs_.empty(); step_++) {
      ASSERT_LT(step_, 20000) << "somebody never ends";
      if (arrivals > 0 && (jobs_.empty() || chance(4))) {
        arrive();
        arrivals--;
      }
      if (!jobs_.empty() && chance(60)) end(any_job());
      if (chance(100)) change_budget();  // other programs take memory, too
      preempt();
      admit();
      step();
      if (::testing::Test::HasFailure()) return;
    }
    EXPECT_EQ(scheduler_.running() + scheduler_.queued(), 0);
    EXPECT_EQ(scheduler_.bytes(), 0u);
  }

 private:
  int number(int from, int to) { return std::uniform_int_distribution(from, to)(random_); }
  bool chance(int of) { return number(1, of) == 1; }
  template <class T>
  T pick(std::initializer_list<T> from) {
    return from.begin()[number(0, static_cast<int>(from.size()) - 1)];
  }
  uint64_t any_job() {
    return std::next(jobs_.begin(), number(0, static_cast<int>(jobs_.size()) - 1))->first;
  }

  void change_budget() {
    budget_ = chance(3) ? 0 : bytes_.of(400) * static_cast<uint64_t>(number(1, 5)) + kKvBlock;
    scheduler_.set_budget(budget_);
  }

  void arrive() {
    RandomJob job;
    job.priority = pick({0, 0, 0, 1, -1});
    job.known = chance(8) ? number(500, 1500) : number(1, 200);
    job.answer = chance(5) ? number(200, 700) : number(1, 60);
    if (chance(8)) job.more_bytes = static_cast<uint64_t>(number(1, 1000));
    for (int at = number(0, 40); chance(3) && at + 20 < job.known; at += number(20, 60))
      job.whole.push_back({at, at + number(2, 19)});
    ASSERT_TRUE(scheduler_.add(next_, job.known, job.priority, job.whole, job.more_bytes));
    jobs_.emplace(next_++, job);
  }

  void end(uint64_t id) {
    jobs_.erase(id);
    scheduler_.remove(id);
  }

  uint64_t bytes_of(const RandomJob& job) const {
    return bytes_.of(job.known + kMaxDraftTokens) + job.more_bytes;
  }
  // The same sum as the scheduler's, of what the test knows.
  uint64_t bytes() const {
    uint64_t sum = 0;
    for (const auto& [id, job] : jobs_) sum += job.running ? bytes_of(job) : 0;
    return sum;
  }
  int running() const {
    return static_cast<int>(std::ranges::count_if(jobs_, [](const auto& job) { return job.second.running; }));
  }
  bool waits(const RandomJob& job) const {
    const auto other = jobs_.find(job.after);
    return job.held_until >= 0 ||
           (other != jobs_.end() && other->second.running && other->second.applied < job.after_tokens);
  }

  void expect_bounds() const {
    ASSERT_EQ(scheduler_.running(), running());
    ASSERT_EQ(scheduler_.bytes(), bytes());
    ASSERT_LE(running(), options_.max_running);
    if (budget_ > 0 && running() > 1) {
      ASSERT_LE(bytes(), budget_);
    }
  }

  void preempt() {
    for (const uint64_t id : scheduler_.preempt()) {
      RandomJob& job = jobs_.at(id);
      ASSERT_TRUE(job.running);
      job.running = false;
      job.applied = 0;
      happened_.preempted++;
      for (const auto& [other, kept] : jobs_)
        ASSERT_FALSE(kept.running && std::pair(kept.priority, other) > std::pair(job.priority, id))
            << other << " came after " << id << " and matters less";
    }
    expect_bounds();
  }

  void admit() {
    for (auto& [id, job] : jobs_)
      if (job.held_until >= 0 && job.held_until <= step_) {
        scheduler_.release(id);
        job.held_until = -1;
      }
    for (int begun = 0; begun < kMostAdmissions; begun++) {
      const auto ids = scheduler_.admit(begun, spent_);
      if (ids.empty()) break;
      for (const uint64_t id : ids) {
        ASSERT_FALSE(jobs_.at(id).running || waits(jobs_.at(id))) << id;
        jobs_.at(id).running = true;
      }
      expect_bounds();
      ASSERT_TRUE(scheduler_.preempt().empty()) << "who is admitted is not preempted at once";
      for (const uint64_t id : ids) expect_nobody_passed(id);
      for (const uint64_t id : ids) begin(id);
    }
    const bool someone = std::ranges::any_of(jobs_, [&](const auto& job) { return !waits(job.second); });
    const bool slots_are_reserved =
        std::ranges::any_of(jobs_, [&](const auto& job) { return !job.second.running && waits(job.second); });
    if (someone && !slots_are_reserved) {
      ASSERT_GT(running(), 0) << "nobody runs, and nobody is waited for";
    }
  }

  void expect_nobody_passed(uint64_t id) const {
    for (const auto& [other, job] : jobs_)
      ASSERT_FALSE(!job.running && !waits(job) &&
                   std::pair(job.priority, other) < std::pair(jobs_.at(id).priority, id))
          << id << " passes " << other;
  }

  // As the engine begins a sequence: it may wait for another's prefix or for its images, or find a kept
  // state.
  void begin(uint64_t id) {
    RandomJob& job = jobs_.at(id);
    scheduler_.began(chance(20) ? 0.05 : 1e-4);
    const uint64_t other = any_job();
    const RandomJob& others = jobs_.at(other);
    const int shared = std::min(others.known, job.known) - 1;
    if (chance(4) && other != id && others.running && others.priority <= job.priority &&
        others.applied < shared) {
      job.after = other;
      job.after_tokens = number(others.applied + 1, shared);
      job.running = false;
      happened_.waited++;
      return scheduler_.wait_for(id, other, job.after_tokens);
    }
    if (!job.begun && chance(5)) {
      job.begun = true;
      job.running = false;
      job.held_until = step_ + number(1, 10);
      happened_.held++;
      return scheduler_.hold(id);
    }
    job.begun = true;
    if (!chance(4) || !job.whole.empty()) return;
    job.applied = number(0, job.known - 1);
    scheduler_.advanced(id, job.applied, 0);
  }

  void expect_plan(const StepPlan& plan) {
    std::set<uint64_t> seen;
    int index = 0, prompt_tokens = 0, first = 0;
    bool whole = false;
    for (const ScheduledTokens& part : plan.scheduled) {
      ASSERT_TRUE(seen.insert(part.id).second) << part.id << " twice";
      ASSERT_TRUE(jobs_.contains(part.id));
      const RandomJob& job = jobs_.at(part.id);
      ASSERT_TRUE(job.running);
      ASSERT_GE(part.tokens, 1);
      ASSERT_LE(part.tokens, job.left());
      ASSERT_EQ(part.last, part.tokens == job.left());
      ASSERT_EQ(index < plan.decoding, job.left() == 1) << part.id;
      for (const TokenRange& range : job.whole) {
        const int end = job.applied + part.tokens;
        ASSERT_FALSE(range.begin < end && end < range.end) << "an image is cut";
      }
      if (index++ < plan.decoding) continue;
      if (prompt_tokens == 0) first = part.tokens;
      prompt_tokens += part.tokens;
      whole |= !job.whole.empty();
    }
    ASSERT_EQ(plan.prompt_tokens, prompt_tokens);
    for (const ScheduledTokens& part : plan.scheduled)
      ASSERT_TRUE(jobs_.at(part.id).alone == 0 || plan.scheduled.size() == 1) << part.id << " is not alone";
    if (!whole) expect_size(plan, first);
  }

  void expect_size(const StepPlan& plan, int first) const {
    const int chunk = options_.prefill_chunk;
    if (plan.decoding == 0) {
      ASSERT_LE(first, chunk + chunk / 2);
      ASSERT_LE(plan.prompt_tokens, std::max(first, chunk));
      return;
    }
    ASSERT_LE(plan.prompt_tokens, std::max(chunk, kChunkGrid));
    if (plan.prompt_tokens <= kChunkGrid) return;
    const double decode = scheduler_.expected_s({.decoding = plan.decoding});
    ASSERT_LE(spent_ + scheduler_.expected_s(plan), 1.0001 * std::max(kStall * decode, options_.max_gap_s));
  }

  void step() {
    const StepPlan plan = scheduler_.plan(spent_);
    if (running() > 0) {
      ASSERT_FALSE(plan.scheduled.empty());
    }
    expect_plan(plan);
    happened_.steps++;
    if (plan.scheduled.empty() || ::testing::Test::HasFailure()) return;
    if (plan.scheduled.size() > 1 && chance(80)) return fail(plan);
    const double seconds =
        (base_ + row_ * plan.decoding + token_ * plan.prompt_tokens) * (chance(15) ? 3 : 1);
    scheduler_.took(plan, seconds);
    for (const ScheduledTokens& part : plan.scheduled) advance(part);
    spent_ = chance(10) ? 0.01 : 0;
  }

  void advance(const ScheduledTokens& part) {
    RandomJob& job = jobs_.at(part.id);
    const bool decodes = job.left() == 1 && job.made > 0;
    const int drafts = decodes && chance(3) ? number(0, kMaxDraftTokens - 1) : 0;
    const int sampled = part.last ? 1 + drafts : 0;
    scheduler_.advanced(part.id, part.tokens + drafts, sampled);
    job.applied += part.tokens + drafts;
    job.known += sampled;
    job.made += sampled;
    job.alone = std::max(0, job.alone - sampled);
    if (job.made < job.answer) return;
    happened_.ended++;
    end(part.id);
  }

  // A step of several failed: each runs alone until it has a token, or twice as many as after the failure
  // before.
  void fail(const StepPlan& plan) {
    for (const ScheduledTokens& part : plan.scheduled) {
      RandomJob& job = jobs_.at(part.id);
      job.applied = 0;
      job.running = false;
      job.alone = job.alone_next;
      job.alone_next *= 2;
      scheduler_.isolate(part.id, job.known);
    }
    happened_.failed++;
    ASSERT_TRUE(scheduler_.isolates());
  }

  Happened& happened_;
  std::mt19937 random_;
  SchedulerOptions options_;
  Scheduler scheduler_;
  SequenceBytes bytes_;
  uint64_t budget_ = 0, next_ = 1;
  double base_ = pick({0.001, 0.01}), row_ = pick({1e-5, 1e-3}), token_ = pick({1e-5, 1e-3, 0.1}), spent_ = 0;
  int step_ = 0;
  std::map<uint64_t, RandomJob> jobs_;
};

TEST(RandomSchedules, BoundsHoldAndEveryRequestEnds) {
  Happened happened;
  for (uint32_t seed = 1; seed <= 5000; seed++) {
    SCOPED_TRACE(seed);
    RandomSchedule(seed, happened).run();
    if (HasFailure()) return;
  }
  EXPECT_GT(happened.steps, 100'000);
  EXPECT_GT(happened.ended, 20'000);
  EXPECT_GT(happened.preempted, 500);
  EXPECT_GT(happened.held, 500);
  EXPECT_GT(happened.waited, 500);
  EXPECT_GT(happened.failed, 500);
}

}  // namespace
}  // namespace anabranch
