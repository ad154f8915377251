// Several readers, writers and stores of one file of sessions: who waits for whom, and that nothing is lost.
#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <thread>

#include "sessions/session_store_fixture.h"

namespace anabranch {
namespace {

// A reader needs the log, so it cannot be emptied for seconds.
TEST_F(Sessions, ChangesDoNotWaitForWhatIsPrunedAndOverwritten) {
  store_.reset();
  std::atomic<int> due = 0;
  const auto reopen = [&](uint64_t bytes) {
    store_.reset();
    store_ = *SessionStore::open(directory_, {.bytes = bytes}, [&] { ++due; });
  };
  reopen(16000);
  const Session old = make("old"), middle = make("middle"), last = make("last");
  add(old.id, says("user", "xylophonist " + std::string(3000, 'x')));
  add(middle.id, says("user", std::string(15000, 'x')));
  EXPECT_EQ(due, 1) << "told once, until it is done";
  ASSERT_TRUE(store_->upkeep().ok());
  EXPECT_TRUE(store_->find({}, old.id).ok()) << "not too much yet";
  SQLite::Database reader(session_file(directory_), SQLite::OPEN_READWRITE);
  reader.exec("BEGIN");
  reader.execAndGet("SELECT count(*) FROM sessions");
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 5; ++i) add(last.id, says("user", std::string(2000, 'x')));
  ASSERT_TRUE(store_->put_response({"resp_1", last.id, 1, Json::object(), Json::array()}).ok());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(4));
  EXPECT_EQ(due, 2);
  EXPECT_TRUE(store_->find({}, old.id).ok());
  reader.exec("COMMIT");
  ASSERT_TRUE(store_->upkeep().ok());
  EXPECT_FALSE(store_->find({}, old.id).ok());
  EXPECT_EQ(bytes_on_disk().find("xylophonist"), std::string::npos);
  reopen(1000);
  EXPECT_EQ(titles({}), std::vector<std::string>{"last"}) << "opening prunes, too,";
  EXPECT_EQ(due, 3) << "and leaves overwriting to others";
}

// A short read finds a reader that is free, whoever has the others.
TEST_F(Sessions, ShortReadsWaitForTheFirstFreeReader) {
  const Session large = make("large"), small = make("small");
  for (int i = 0; i < 4; ++i) add(large.id, says("user", std::string(8 << 20, 'x')));
  using Clock = std::chrono::steady_clock;
  std::atomic<int64_t> shortest{INT64_MAX};  // of the long reads, in nanoseconds
  std::atomic<int> running = 2;
  const auto timed = [](const std::function<void()>& work) {
    const auto begin = Clock::now();
    work();
    return (Clock::now() - begin).count();
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 3; ++i) {
        const int64_t took = timed([&] { EXPECT_EQ(store_->path({}, large.id)->size(), 4u); });
        if (took < shortest) shortest = took;
      }
      --running;
    });
  std::mutex mutex;
  std::vector<int64_t> waits;
  for (int t = 0; t < 6; ++t)
    threads.emplace_back([&] {
      while (running == 2) {
        const int64_t took = timed([&] { EXPECT_TRUE(store_->find({}, small.id).ok()); });
        const std::lock_guard lock(mutex);
        waits.push_back(took);
      }
    });
  for (std::thread& thread : threads) thread.join();
  const auto slow = std::ranges::count_if(waits, [&](int64_t took) { return 10 * took > 8 * shortest; });
  EXPECT_LE(slow, 5) << "of " << waits.size() << ", where a long read takes " << shortest / 1e6 << " ms";
}

// A long read leaves others free to read and to write.
TEST_F(Sessions, ReadersAndWritersDoNotWaitForEachOther) {
  const Session large = make("large"), small = make("small");
  for (int i = 0; i < 4; ++i) add(large.id, says("user", std::string(8 << 20, 'x')));
  const auto took = [](const std::function<void()>& work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  int calls = 0;
  double whole = 0;
  // On a busy machine this thread may not run at all while the other one reads.
  for (int attempt = 0; attempt < 20 && calls < 2; ++attempt) {
    std::atomic<bool> reads = false, done = false;
    std::thread reader([&] {
      reads = true;
      reads.notify_one();
      whole = took([&] { EXPECT_EQ(store_->path({}, large.id)->size(), 4u); });
      done = true;
    });
    reads.wait(false);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    for (calls = 0; !done; ++calls) {
      EXPECT_TRUE(store_->find({}, small.id).ok());
      add(small.id, says("user", "x"));
    }
    reader.join();
  }
  EXPECT_GT(calls, 1) << "in " << whole << " s";
}

// A session names its last message; whoever reads both must not find the name without the message.
TEST_F(Sessions, AReaderSeesASessionAsItWasAtOneMoment) {
  const Session session = make("t");
  const MessageId first = add(session.id, says("user", "one"));
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (int i = 0; i < 400; ++i) {
      const auto message = says("assistant", "two");
      const auto ids = store_->append({}, session.id, {}, std::span(&message, 1));
      EXPECT_TRUE(ids.ok() && store_->take_back(session.id, *ids, first).ok());
    }
    done = true;
  });
  int missed = 0;
  while (!done)
    if (!store_->path({}, session.id)) ++missed;
  writer.join();
  EXPECT_EQ(missed, 0);
}

TEST_F(Sessions, SeveralStoresShareAFile) {
  const Session session = make("t");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const auto own = open();
      for (int i = 0; i < 25; ++i) {
        const auto message = says("user", fmt::format("{}-{}", t, i));
        EXPECT_TRUE(own->append({}, session.id, {}, std::span(&message, 1)).ok());
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(store_->find({}, session.id)->messages, 100);
  EXPECT_EQ(store_->path({}, session.id)->size(), 100u) << "one below the other, none lost";
}

TEST_F(Sessions, SeveralStoresMayOpenANewFile) {
  for (int round = 0; round < 10; ++round) {
    store_.reset();
    std::filesystem::remove_all(directory_);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        const auto own = SessionStore::open(directory_, {});
        EXPECT_TRUE(own.ok()) << own.error().message;
      });
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace anabranch
