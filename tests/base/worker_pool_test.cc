#include "base/worker_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"

namespace anabranch {
namespace {

// Holds a job until it is let go, and tells when it runs.
class Gate {
 public:
  std::function<void()> job() {
    return [this] {
      runs_.set_value();
      go_.get_future().wait();
    };
  }
  void wait_until_it_runs() { runs_.get_future().wait(); }
  void let_go() { go_.set_value(); }

 private:
  std::promise<void> runs_, go_;
};

void wait_for(const std::function<bool()>& condition) {
  for (const double end = now_seconds() + 20; !condition() && now_seconds() < end;)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  ASSERT_TRUE(condition());
}

// The order in which jobs ran.
class Order {
 public:
  std::function<void()> job(std::string name) {
    ++submitted_;
    return [this, name = std::move(name)] {
      std::lock_guard lock(mutex_);
      names_ += name + " ";
      ++ran_;
    };
  }
  std::string names() {
    wait_for([&] { return ran_ == submitted_; });
    std::lock_guard lock(mutex_);
    return names_;
  }

 private:
  std::mutex mutex_;
  std::string names_;
  int submitted_ = 0;
  std::atomic<int> ran_ = 0;
};

// Runs what `submit` puts into a pool whose only thread is held meanwhile.
std::string order_of(const std::function<void(WorkerPool&, Order&)>& submit) {
  Order order;
  WorkerPool pool({});
  Gate gate;
  pool.submit({"first"}, gate.job());
  gate.wait_until_it_runs();
  submit(pool, order);
  gate.let_go();
  return order.names();
}

TEST(WorkerPool, RunsTheJobsOfOneClientInTheirOrder) {
  EXPECT_EQ(order_of([](WorkerPool& pool, Order& order) {
              for (const char* name : {"1", "2", "3"}) pool.submit({"a"}, order.job(name));
            }),
            "1 2 3 ");
}

TEST(WorkerPool, ManyJobsOfOneClientDoNotGoBeforeOneOfAnother) {
  const std::string order = order_of([](WorkerPool& pool, Order& order) {
    for (int i = 0; i < 50; ++i) pool.submit({"many", 0}, order.job("m"));
    pool.submit({"one", 0}, order.job("one"));
  });
  EXPECT_LE(order.find("one"), 4u) << order;
}

TEST(WorkerPool, ClientsShareByWhatTheirJobsCostAndNotByTheirNumber) {
  const std::string order = order_of([](WorkerPool& pool, Order& order) {
    for (int i = 0; i < 3; ++i) pool.submit({"large", 1u << 20}, order.job("L"));
    for (int i = 0; i < 10; ++i) pool.submit({"small", 1u << 10}, order.job("s"));
  });
  EXPECT_LE(order.find('L'), 2u) << "it is not put off for ever: " << order;
  EXPECT_EQ(order.substr(order.find('L') + 2, 18), "s s s s s s s s s ") << order;
}

TEST(WorkerPool, WhoWasAwayHasSavedNothingUp) {
  Order order;
  WorkerPool pool({});
  Gate gate;
  for (int i = 0; i < 10; ++i) pool.submit({"busy"}, order.job("b"));
  pool.submit({"busy"}, gate.job());
  for (int i = 0; i < 10; ++i) pool.submit({"busy"}, order.job("b"));
  gate.wait_until_it_runs();
  for (int i = 0; i < 10; ++i) pool.submit({"new"}, order.job("n"));
  gate.let_go();
  const std::string names = order.names().substr(20);
  EXPECT_LT(names.find('b'), names.find("n n n")) << "the two take turns: " << names;
}

TEST(WorkerPool, ASmallJobGoesBeforeLargeOnesOfItsClient) {
  EXPECT_EQ(order_of([](WorkerPool& pool, Order& order) {
              for (int i = 0; i < 3; ++i) pool.submit({"a", 30u << 20}, order.job("L"));
              pool.submit({"a", 300u << 10}, order.job("s"));
            }).substr(0, 2),
            "s ");
}

TEST(WorkerPool, LargeJobsLeaveAThreadToTheOthers) {
  WorkerPool pool({.threads = 2, .large_bytes = 1000});
  Gate first, second;
  pool.submit({"a", 1000}, first.job());
  first.wait_until_it_runs();
  std::atomic<bool> large = false;
  pool.submit({"b", 1000}, [&] { large = true; });
  std::promise<void> small;
  pool.submit({"a", 999}, [&] { small.set_value(); });
  small.get_future().wait();
  EXPECT_FALSE(large);
  first.let_go();
  wait_for([&] { return large.load(); });
}

TEST(WorkerPool, OneClientTakesNoMoreThreadsThanItMay) {
  WorkerPool pool({.threads = 3, .per_client = 2});
  Gate first, second;
  pool.submit({"a", 0}, first.job());
  pool.submit({"a", 0}, second.job());
  first.wait_until_it_runs();
  second.wait_until_it_runs();
  std::atomic<bool> third = false;
  pool.submit({"a", 0}, [&] { third = true; });
  std::promise<void> other;
  pool.submit({"b", 0}, [&] { other.set_value(); });
  other.get_future().wait();
  EXPECT_FALSE(third);
  first.let_go();
  wait_for([&] { return third.load(); });
  second.let_go();
}

TEST(WorkerPool, AClosedPoolDropsJobs) {
  WorkerPool pool({});
  Gate gate;
  pool.submit(gate.job());
  gate.wait_until_it_runs();
  std::atomic<int> ran = 0;
  const auto held = std::make_shared<int>(0);
  pool.submit([&, held] { ++ran; });
  std::thread closing([&] { pool.close(); });
  wait_for([&] { return held.use_count() == 1; });  // dropped although the pool still waits for the first
  gate.let_go();
  closing.join();
  pool.submit([&] { ++ran; });
  EXPECT_EQ(ran, 0);
}

}  // namespace
}  // namespace anabranch
