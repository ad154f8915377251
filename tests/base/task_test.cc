#include "base/task.h"

#include <gtest/gtest.h>

#include <deque>
#include <stdexcept>
#include <string>
#include <vector>

namespace anabranch {
namespace {

// Where functions wait until the test calls them.
struct Later {
  std::deque<Callback<int>::Done> waiting;  // they stay where they are when more come
  Callback<int> value() {
    return Callback<int>([this](Callback<int>::Done done) { waiting.push_back(std::move(done)); });
  }
};

Callback<int> at_once(int value) {
  return Callback<int>([value](const Callback<int>::Done& done) { done(value); });
}

Task<int> sum(Later& later) {
  const int a = co_await later.value();
  const int b = co_await later.value();
  co_return a + b;
}

Task<> note_sum(Later& later, std::vector<int>& out) {
  for (int i = 0; i < 2; i++) {
    const int value = co_await sum(later);
    out.push_back(value);
  }
}

TEST(Task, RunsFromWaitToWait) {
  Later later;
  std::vector<int> out;
  Task<> task = note_sum(later, out);
  EXPECT_TRUE(later.waiting.empty());  // nothing runs before start()
  task.start();
  for (const int value : {1, 2, 3, 4}) later.waiting.back()(value);
  EXPECT_EQ(out, (std::vector<int>{3, 7}));
}

TEST(Task, LaterCallsDoNothing) {
  Later later;
  std::vector<int> out;
  Task<> task = note_sum(later, out);
  task.start();
  later.waiting[0](1);
  later.waiting[0](10);
  EXPECT_EQ(later.waiting.size(), 2u);
  later.waiting[1](2);
  EXPECT_EQ(out, (std::vector<int>{3}));
}

Task<> count_down(int from, int& steps) {
  for (int left = from; left > 0;) {
    left = co_await at_once(left - 1);
    steps++;
  }
}

TEST(Task, WhatIsThereAtOnceNeedsNoWait) {
  int steps = 0;
  Task<> task = count_down(1'000'000, steps);
  task.start();
  EXPECT_EQ(steps, 1'000'000);  // and no stack for each
}

struct Noted {
  int& destroyed;
  ~Noted() { destroyed++; }
};

Task<int> hold(Later& later, int& destroyed) {
  const Noted noted{destroyed};
  co_return co_await later.value();
}

Task<> hold_both(Later& later, int& destroyed, bool& went_on) {
  const Noted noted{destroyed};
  (void)co_await hold(later, destroyed);
  went_on = true;
}

TEST(Task, EndsWhereItWaitsWhenItIsDestroyed) {
  Later later;
  int destroyed = 0;
  bool went_on = false;
  {
    Task<> task = hold_both(later, destroyed, went_on);
    task.start();
    EXPECT_EQ(destroyed, 0);
  }
  EXPECT_EQ(destroyed, 2);
  later.waiting.back()(1);  // nobody is there any more
  EXPECT_FALSE(went_on);
}

TEST(Task, MayBeMovedWhileItWaits) {
  Later later;
  std::vector<int> out;
  std::vector<Task<>> tasks;
  for (int i = 0; i < 10; i++) {
    tasks.push_back(note_sum(later, out));
    tasks.back().start();
  }
  const auto waiting = later.waiting;
  for (const auto& done : waiting) done(1);
  EXPECT_EQ(later.waiting.size(), 20u);
}

Task<int> fails(Later& later) {
  (void)co_await later.value();
  throw std::runtime_error("no");
}

Task<> catches(Later& later, std::string& text) {
  try {
    (void)co_await fails(later);
  } catch (const std::exception& e) {
    text = e.what();
  }
}

TEST(Task, ExceptionsReachTheOneThatAwaits) {
  Later later;
  std::string text;
  Task<> task = catches(later, text);
  task.start();
  later.waiting.back()(0);
  EXPECT_EQ(text, "no");
}

}  // namespace
}  // namespace anabranch
