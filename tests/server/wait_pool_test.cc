#include "server/api/wait_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "slow.h"

namespace anabranch::server {
namespace {

// Jobs that wait until they are let go.
class Gate {
 public:
  ~Gate() { open(); }
  std::function<void()> job(const std::string& name) {
    return [this, name] {
      std::unique_lock lock(mutex_);
      began_.push_back(name);
      changed_.notify_all();
      changed_.wait(lock, [&] { return open_; });
    };
  }
  void open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  bool began(const std::string& name) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(kWaitSeconds),
                             [&] { return std::ranges::find(began_, name) != began_.end(); });
  }
  // How many jobs began, once that is so many or more.
  size_t count(size_t wanted) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(kWaitSeconds), [&] { return began_.size() >= wanted; });
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // more would begin by then
    lock.lock();
    return began_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> began_;
  bool open_ = false;
};

TEST(WaitPool, APlaceThatHangsHoldsUpNeitherOtherPlacesNorOtherKeys) {
  Gate gate;
  WaitPool pool;
  for (int i = 0; i < 40; ++i) pool.submit("alice", {"hangs"}, gate.job("alice"));
  pool.submit("alice", {"other"}, gate.job("alice elsewhere"));
  pool.submit("bob", {"hangs"}, gate.job("bob"));
  EXPECT_TRUE(gate.began("alice elsewhere"));
  EXPECT_TRUE(gate.began("bob"));
  EXPECT_EQ(gate.count(10), 10u) << "eight of the forty run";
  gate.open();
}

TEST(WaitPool, AJobWaitsForRoomAtEachOfItsPlaces) {
  Gate gate;
  WaitPool pool({.threads = 8, .per_owner = 8, .per_place = 1});
  pool.submit("", {"a"}, gate.job("a"));
  pool.submit("", {"b", "a"}, gate.job("both"));
  pool.submit("", {"b", "b"}, gate.job("b"));
  EXPECT_TRUE(gate.began("a") && gate.began("b"));
  EXPECT_EQ(gate.count(2), 2u);
  gate.open();
  EXPECT_TRUE(gate.began("both"));
}

TEST(WaitPool, OneKeyCannotTakeAllThreads) {
  Gate gate;
  WaitPool pool({.threads = 8, .per_owner = 100, .per_place = 100});
  for (int i = 0; i < 50; ++i) pool.submit("alice", {"x"}, gate.job("alice"));
  EXPECT_EQ(gate.count(6), 6u) << "a quarter is kept for others";
  pool.submit("bob", {"x"}, gate.job("bob"));
  pool.submit("carol", {"x"}, gate.job("carol"));
  EXPECT_TRUE(gate.began("bob") && gate.began("carol"));
  pool.submit("dave", {"x"}, gate.job("dave"));
  EXPECT_EQ(gate.count(8), 8u) << "never more than there are threads";
  gate.open();
  EXPECT_TRUE(gate.began("dave"));
}

// However many jobs another has queued before.
TEST(WaitPool, TheOwnerOfFewerRunningJobsIsNext) {
  Gate first, second, rest;
  WaitPool pool({.threads = 2, .per_owner = 2, .per_place = 2});
  pool.submit("alice", {"x"}, first.job("first"));
  pool.submit("alice", {"x"}, second.job("second"));
  EXPECT_TRUE(first.began("first") && second.began("second"));
  for (int i = 0; i < 5; ++i) pool.submit("alice", {"x"}, rest.job("alice"));
  pool.submit("bob", {"x"}, rest.job("bob"));
  first.open();
  EXPECT_TRUE(rest.began("bob"));
  EXPECT_EQ(rest.count(1), 1u);
  second.open();
  EXPECT_TRUE(rest.began("alice"));
  rest.open();
}

TEST(WaitPool, AJobWithoutAPlaceCountsForItsOwner) {
  Gate gate;
  WaitPool pool({.threads = 16, .per_owner = 8, .per_place = 2});
  for (int i = 0; i < 5; ++i) pool.submit("alice", {}, gate.job("alice"));
  EXPECT_EQ(gate.count(2), 2u);
  gate.open();
}

TEST(WaitPool, EndsWithoutTheJobsThatWait) {
  Gate gate;
  std::atomic<bool> runs = false;
  {
    WaitPool pool({.threads = 4, .per_owner = 4, .per_place = 1});
    for (int i = 0; i < 3; ++i)
      pool.submit("alice", {"x"}, [&, job = gate.job("alice")] {
        runs = true;
        while (!pool.stopping()) std::this_thread::yield();
        gate.open();
        job();
      });
    while (!runs) std::this_thread::yield();
  }
  EXPECT_EQ(gate.count(1), 1u);
}

}  // namespace
}  // namespace anabranch::server
