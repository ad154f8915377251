// Who deletes a conversation hears of it when what it left in the cache is gone, whoever removed that.
#include "server/api/trace_eraser.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <SQLiteCpp/SQLiteCpp.h>

#include <filesystem>
#include <fstream>
#include <future>

#include "base/clock.h"
#include "server/fake_states.h"
#include "server/server_fixture.h"
#include "slow.h"

namespace anabranch::server {
namespace {

class TraceEraserTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(directory_);
    stores_ = *SessionStores::open({.directory = directory_, .keep_responses = true});
    engine_.shared = &states_;
    ServerModels models;
    // Its end waits for the gate, as that of an engine does which still writes states.
    models.first = ReadyModel{std::shared_ptr<Engine>(&engine_, [this](Engine*) { states_.pass(); }),
                              engine_.default_sampling(),
                              {}};
    models.source = no_models();
    pool_ = std::make_unique<ModelPool>(std::move(models), PrepareOptions{}, post(), [](auto, auto) {});
    eraser_ = std::make_unique<TraceEraser>(*pool_, stores_, post(), "");
  }
  void TearDown() override {
    states_.open();
    eraser_.reset();
    run_until([] { return false; }, 0.05);
    pool_.reset();
    std::filesystem::remove_all(directory_);
  }
  Post post() {
    return [this](std::function<void()> job) {
      const std::lock_guard lock(mutex_);
      jobs_.push_back(std::move(job));
    };
  }
  // Is the I/O thread meanwhile.
  bool run_until(const std::function<bool()>& condition, double seconds = kWaitSeconds) {
    for (const double end = now_seconds() + seconds; !condition() && now_seconds() < end;) {
      std::deque<std::function<void()>> jobs;
      {
        const std::lock_guard lock(mutex_);
        jobs.swap(jobs_);
      }
      for (const auto& job : jobs) job();
      if (jobs.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return condition();
  }
  // A conversation that left a state, and was removed.
  void remove_one(int number) {
    SessionStore& store = stores_->usual();
    const Session session = *store.create({});
    ASSERT_TRUE(store.add_traces(session.id, std::vector{states_.trace(number)}).ok());
    ASSERT_TRUE(store.erase({}, session.id).ok());
  }
  const ModelPool::Entry& entry() { return *pool_->entries().front(); }

  const std::string directory_ =
      std::filesystem::temp_directory_path() / ("trace_eraser_" + std::to_string(::getpid()));
  FakeStates states_;
  FakeEngine engine_;
  std::mutex mutex_;
  std::deque<std::function<void()>> jobs_;
  std::shared_ptr<SessionStores> stores_;
  std::unique_ptr<ModelPool> pool_;
  std::unique_ptr<TraceEraser> eraser_;
};

TEST_F(TraceEraserTest, WhoDeletedWaitsAlsoWhenAnotherTookTheTraces) {
  states_.close();
  remove_one(1);
  eraser_->erase();  // of another request
  ASSERT_TRUE(run_until([&] { return states_.entered == 1; }));
  bool told = false;
  eraser_->erase([&] { told = true; });
  EXPECT_FALSE(run_until([&] { return told; }, 0.2));
  states_.open();
  EXPECT_TRUE(run_until([&] { return told; }));
  EXPECT_EQ(states_.forgotten(), 1u);
}

TEST_F(TraceEraserTest, NothingToRemoveIsToldAtOnceAndUsesNoModel) {
  const double used = entry().last_used;
  bool told = false;
  eraser_->erase([&] { told = true; });
  EXPECT_TRUE(run_until([&] { return told; }));
  EXPECT_EQ(entry().last_used, used);
}

TEST_F(TraceEraserTest, TracesAreKeptUntilTheDatabaseCanBeRead) {
  remove_one(1);
  SQLite::Database db(session_file(directory_), SQLite::OPEN_READWRITE);
  db.exec("ALTER TABLE traces RENAME TO elsewhere");
  bool told = false;
  eraser_->erase([&] { told = true; });
  ASSERT_TRUE(run_until([&] { return told; }));
  EXPECT_EQ(states_.forgotten(), 0u);
  db.exec("ALTER TABLE elsewhere RENAME TO traces");
  told = false;
  eraser_->erase([&] { told = true; });
  ASSERT_TRUE(run_until([&] { return told; }));
  EXPECT_EQ(states_.forgotten(), 1u);
}

TEST_F(TraceEraserTest, WhatCouldNotBeRemovedFromTheDiskIsRemovedLater) {
  const std::string cache = directory_ + "/cache";
  std::filesystem::create_directories(cache);
  std::ofstream(cache + "/turns.db") << std::string(5000, 'x');  // no database
  TraceEraser eraser(*pool_, stores_, post(), cache);
  SessionStore& store = stores_->usual();
  const Session session = *store.create({});
  ASSERT_TRUE(store.add_traces(session.id, std::vector{turn_trace(5)}).ok());
  ASSERT_TRUE(store.erase({}, session.id).ok());
  const auto erase = [&] {
    bool told = false;
    eraser.erase([&] { told = true; });
    return run_until([&] { return told; });
  };
  ASSERT_TRUE(erase());
  EXPECT_TRUE(stores_->has_released());
  std::filesystem::remove(cache + "/turns.db");
  ASSERT_TRUE(erase());
  EXPECT_FALSE(stores_->has_released());
}

// Its last answers still run, and it may write what it has queued.
TEST_F(TraceEraserTest, AModelThatGivesWayForgetsToo) {
  ModelLease answer;
  pool_->acquire(entry().name, [&](auto taken) { answer = taken.value(); });
  pool_->unload(entry().name, [](const auto&) {});
  ASSERT_EQ(entry().state, ModelState::draining);
  remove_one(1);
  bool told = false;
  eraser_->erase([&] { told = true; });
  EXPECT_TRUE(run_until([&] { return told; }));
  EXPECT_EQ(states_.forgotten(), 1u);
  answer.reset();
  EXPECT_TRUE(run_until([&] { return entry().state == ModelState::unloaded; }));
}

TEST_F(TraceEraserTest, AModelThatIsBeingUnloadedIsWaitedFor) {
  states_.close();
  pool_->unload(entry().name, [](const auto&) {});
  ASSERT_EQ(entry().state, ModelState::unloading);
  remove_one(1);
  bool told = false;
  eraser_->erase([&] { told = true; });
  EXPECT_FALSE(run_until([&] { return told; }, 0.2));
  states_.open();
  EXPECT_TRUE(run_until([&] { return told; }));
}

}  // namespace
}  // namespace anabranch::server
