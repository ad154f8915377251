#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "base/cpu_info.h"
#include "slow.h"

namespace anabranch {
namespace {

// Every index exactly once, in ranges of at least `grain` (but for the last) that lie within [0, count).
void expect_covered_once(ThreadPool& pool, int64_t count, int64_t grain) {
  std::vector<std::atomic<int>> hits(static_cast<size_t>(count));
  std::atomic<bool> well_formed{true};
  pool.parallel_for(count, grain, [&](int64_t begin, int64_t end) {
    if (begin < 0 || end > count || begin >= end || (end - begin < grain && end < count)) {
      well_formed = false;
      return;
    }
    for (int64_t i = begin; i < end; i++) hits[static_cast<size_t>(i)]++;
  });
  EXPECT_TRUE(well_formed) << "count " << count << " grain " << grain;
  for (int64_t i = 0; i < count; i++)
    ASSERT_EQ(hits[static_cast<size_t>(i)], 1) << "index " << i << " of " << count << ", grain " << grain;
}

TEST(ThreadPool, CoversEveryIndexOnce) {
  for (int threads : {1, 2, 3, 4, 7}) {
    ThreadPool pool(threads);
    ASSERT_EQ(pool.size(), threads);
    for (int64_t count : {1, 2, 3, 7, 8, 63, 64, 65, 1000, 4097})
      for (int64_t grain : {int64_t{1}, int64_t{2}, int64_t{7}, int64_t{64}, count - 1, count, count + 1})
        if (grain >= 1) expect_covered_once(pool, count, grain);
  }
}

TEST(ThreadPool, NothingToDoCallsNothing) {
  ThreadPool pool;
  int calls = 0;
  pool.parallel_for(0, 1, [&](int64_t, int64_t) { calls++; });
  pool.parallel_for(-5, 1, [&](int64_t, int64_t) { calls++; });
  EXPECT_EQ(calls, 0);
}

TEST(ThreadPool, OneRangeRunsOnTheCaller) {
  ThreadPool pool(4);
  std::thread::id ran_on;
  pool.parallel_for(10, 10, [&](int64_t begin, int64_t end) {
    EXPECT_EQ(begin, 0);
    EXPECT_EQ(end, 10);
    ran_on = std::this_thread::get_id();
  });
  EXPECT_EQ(ran_on, std::this_thread::get_id());
}

TEST(ThreadPool, UsesEveryThread) {
  ThreadPool pool(3);
  std::mutex mutex;
  std::set<std::thread::id> seen;
  std::atomic<int> arrived{0};
  // Each of the three tasks waits for the others, so three threads must be at work at once.
  pool.parallel_for(3, 1, [&](int64_t, int64_t) {
    arrived++;
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (arrived < 3 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    std::lock_guard lock(mutex);
    seen.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(seen.size(), 3u);
}

// A thread that is held up keeps only the piece that it is in: the others do the rest of its share.
TEST(ThreadPool, OthersFinishTheShareOfAThreadThatIsHeldUp) {
  for (const int64_t held : {int64_t{0}, int64_t{63}}) {  // the first and the last thread's
    ThreadPool pool(3);
    std::atomic<int64_t> done{0};
    std::atomic<bool> in_time{true};
    pool.parallel_for(64, 1, [&](int64_t begin, int64_t end) {
      if (begin <= held && held < end) {
        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (done < 64 - (end - begin) && in_time) {
          std::this_thread::yield();
          if (std::chrono::steady_clock::now() > until) in_time = false;
        }
      }
      done += end - begin;
    });
    EXPECT_TRUE(in_time) << "held " << held;
    EXPECT_EQ(done, 64);
  }
}

TEST(ThreadPool, MoreThreadsThanCores) {
  ThreadPool pool(4 * static_cast<int>(std::thread::hardware_concurrency()));
  for (int round = 0; round < 200; round++) expect_covered_once(pool, 300, 1);
}

#if defined(__linux__) && !defined(ANABRANCH_SANITIZED)

// There is memory for the stacks of a few threads only. Exits with what the work returns.
void with_few_stacks(const std::function<int()>& work) {
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t bytes = pages * static_cast<rlim_t>(::getpagesize()) + (100u << 20);
  const rlimit limit{bytes, bytes};
  ::setrlimit(RLIMIT_AS, &limit);
  ::_exit(work());
}

TEST(ThreadPool, ThreadsThatStartDoTheWorkOfThoseThatCannot) {
  const auto work = [] {
    ThreadPool pool(200);
    for (int round = 0; round < 20; round++) expect_covered_once(pool, 1000, 1);
    return ::testing::Test::HasFailure() ? 1 : 0;
  };
  EXPECT_EXIT(with_few_stacks(work), ::testing::ExitedWithCode(0),
              "only [0-9]+ of 200 threads could be started");
}

TEST(ThreadPool, BodiesThatWaitForEachOtherRunOnAllThreadsOrNone) {
  const auto work = [] {
    ThreadPool pool(200, true);
    int refused = 0;
    for (int round = 0; round < 2; round++) try {
        pool.parallel_for(200, 1, [](int64_t, int64_t) { ::_exit(9); });
      } catch (const std::exception&) {
        refused++;
      }
    return refused;
  };
  EXPECT_EXIT(with_few_stacks(work), ::testing::ExitedWithCode(2), "");
}

#endif

TEST(ThreadPool, MoreItemsThanAShareCounts) {
  ThreadPool pool(3);
  constexpr int64_t kCount = (int64_t{1} << 40) + 5;
  std::atomic<int64_t> sum{0};
  pool.parallel_for(kCount, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
  EXPECT_EQ(sum, kCount);
}

TEST(ThreadPool, WritesAreVisibleToTheCaller) {
  ThreadPool pool(4);
  std::vector<int64_t> out(10000);
  for (int64_t round = 0; round < 50; round++) {
    pool.parallel_for(10000, 37, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) out[static_cast<size_t>(i)] = i * round;
    });
    for (int64_t i = 0; i < 10000; i++) ASSERT_EQ(out[static_cast<size_t>(i)], i * round);
  }
}

TEST(ThreadPool, TenThousandQuickForks) {
  ThreadPool pool(2);
  int64_t total = 0;
  for (int64_t fork = 0; fork < 10000; fork++) {
    std::atomic<int64_t> sum{0};
    pool.parallel_for(4, 1, [&](int64_t begin, int64_t) { sum += begin + 1; });
    total += sum;
  }
  EXPECT_EQ(total, 10000 * (1 + 2 + 3 + 4));
}

TEST(ThreadPool, WakesSleepingWorkers) {
  ThreadPool pool(3);
  for (int round = 0; round < 40; round++) {
    // Longer than a worker spins; an odd step moves the fork across the moment of falling asleep.
    std::this_thread::sleep_for(std::chrono::microseconds(50 + 37 * round));
    expect_covered_once(pool, 100, 3);
  }
}

TEST(ThreadPool, ConcurrentCallersTakeTurns) {
  ThreadPool pool(2);
  constexpr int kCallers = 4, kForks = 500;
  std::vector<int64_t> sums(kCallers);
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; caller++) {
    callers.emplace_back([&pool, &sums, caller] {
      for (int fork = 0; fork < kForks; fork++) {
        std::atomic<int64_t> sum{0};
        pool.parallel_for(64, 5, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; i++) sum += i + caller;
        });
        sums[static_cast<size_t>(caller)] += sum;
      }
    });
  }
  for (auto& thread : callers) thread.join();
  for (int caller = 0; caller < kCallers; caller++)
    EXPECT_EQ(sums[static_cast<size_t>(caller)], int64_t{kForks} * (64 * 63 / 2 + 64 * caller));
}

TEST(ThreadPool, PoolsComeAndGo) {
  for (int round = 0; round < 20; round++) {
    ThreadPool pool(1 + round % 4);
    expect_covered_once(pool, 50, 3);
  }
  ThreadPool never_used(3);
}

// A body may use another pool: the pools of two devices know nothing of each other.
TEST(ThreadPool, PoolsAreIndependent) {
  ThreadPool outer(2), inner(3);
  std::vector<std::atomic<int>> hits(400);
  outer.parallel_for(20, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++)
      inner.parallel_for(20, 1, [&](int64_t from, int64_t to) {
        for (int64_t j = from; j < to; j++) hits[static_cast<size_t>(i * 20 + j)]++;
      });
  });
  for (const auto& hit : hits) ASSERT_EQ(hit, 1);
}

TEST(ThreadPool, TheNumberOfThreadsIsChosenForTheMachine) {
  EXPECT_EQ(ThreadPool().size(), choose_threads(cpu_info()).threads);
  EXPECT_EQ(shared_threads().size(), ThreadPool().size());
  expect_covered_once(shared_threads(), 100, 3);
}

TEST(ThreadPoolDeathTest, RefusesAGrainOfZero) {
  ThreadPool pool(2);
  EXPECT_DEATH(pool.parallel_for(10, 0, [](int64_t, int64_t) {}), "grain = 0");
}

}  // namespace
}  // namespace anabranch
