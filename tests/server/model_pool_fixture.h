// A pool of models by name over fake engines, whose I/O thread is the test's.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "server/api/model_pool.h"
#include "server/fake_engine.h"
#include "slow.h"
#include "temp_dir.h"

namespace anabranch::server {

// The I/O thread is the test's: jobs that were posted and timers that are due run in until().
class IoThread {
 public:
  Post post() {
    return [this](std::function<void()> job) {
      std::lock_guard lock(mutex_);
      jobs_.push_back(std::move(job));
      came_.notify_one();
    };
  }
  After after() {
    return [this](double seconds, std::function<void()> run) {
      timers_.emplace(now_seconds() + seconds, std::move(run));
    };
  }
  bool until(const std::function<bool()>& condition, double seconds = kWaitSeconds) {
    const double end = now_seconds() + seconds;
    while (!condition() && now_seconds() < end) {
      if (!timers_.empty() && timers_.begin()->first <= now_seconds()) {
        const auto run = std::move(timers_.begin()->second);
        timers_.erase(timers_.begin());
        run();
      }
      std::function<void()> job;
      {
        std::unique_lock lock(mutex_);
        came_.wait_for(lock, std::chrono::milliseconds(2), [&] { return !jobs_.empty(); });
        if (jobs_.empty()) continue;
        job = std::move(jobs_.front());
        jobs_.pop_front();
      }
      job();
    }
    return condition();
  }

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<std::function<void()>> jobs_;
  std::multimap<double, std::function<void()>> timers_;
};

// Models by name with sizes, and what loading them did.
struct FakeModels {
  std::map<std::string, uint64_t> bytes = {{"a", 40}, {"b", 40}, {"c", 40}, {"large", 1000}};
  std::set<std::string> unreadable, broken;  // measure fails, load fails
  std::map<std::string, KeepLoaded> keep;
  std::map<std::string, std::vector<NamedAdapter>> adapters;
  std::atomic<int> loads{0}, alive{0};
  std::mutex gate;       // held: loads wait
  bool endless = false;  // answers go on until they are cancelled

  std::shared_ptr<Engine> engine(const std::string& name) {
    auto* made = new FakeEngine;
    made->mutable_info().name = name;
    made->mutable_info().path = "/models/" + name;
    made->mutable_info().weight_bytes = bytes.at(name);
    if (endless)
      made->script = [](const Request&) {
        return Script{.parts = {"a"}, .delay = std::chrono::milliseconds(1), .repeat = true};
      };
    alive++;
    return {made, [this](FakeEngine* engine) {
              delete engine;
              alive--;
            }};
  }
  ModelSource source() {
    ModelSource source = no_models();
    source.find = [this](const std::string& name) {
      return bytes.contains(name) ? std::optional(name) : std::nullopt;
    };
    source.list = [this] {
      std::vector<std::string> names;
      for (const auto& [name, size] : bytes) names.push_back(name);
      return names;
    };
    source.measure = [this](const std::string& name) -> Result<ModelSize> {
      if (unreadable.contains(name)) return make_error(ErrorKind::invalid, "no header");
      return ModelSize{bytes.at(name), keep.contains(name) ? keep.at(name) : KeepLoaded{}};
    };
    source.load = [this](const std::string& name) -> Result<ReadyModel> {
      std::lock_guard lock(gate);
      loads++;
      if (broken.contains(name)) return make_error(ErrorKind::io, "the disk is gone");
      auto made = engine(name);
      return ReadyModel{made, made->default_sampling(), {}};
    };
    return source;
  }
};

class ModelPoolTest : public ::testing::Test {
 protected:
  void start(uint64_t bytes, bool strict = false) {
    ServerModels models;
    auto first = fakes_.engine("a");
    models.first = ReadyModel{first, first->default_sampling(), {}};
    models.source = fakes_.source();
    models.adapters = fakes_.adapters;
    models.weight_bytes = bytes;
    models.strict_names = strict;
    models.first_keep = first_keep_;
    pool_ = std::make_unique<ModelPool>(std::move(models), PrepareOptions{}, io_.post(), io_.after(),
                                        std::vector{dir_.path()});
  }
  struct Taken {
    bool done = false;
    ModelLease lease;
    std::optional<ApiError> error;
  };
  std::shared_ptr<Taken> ask(const std::string& name) {
    auto taken = std::make_shared<Taken>();
    pool_->acquire(name, [taken](ApiResult<ModelLease> got) {
      taken->done = true;
      if (got)
        taken->lease = *got;
      else
        taken->error = got.error();
    });
    return taken;
  }
  // The model's name, or the error's code.
  std::string use(const std::string& name) {
    const auto taken = ask(name);
    EXPECT_TRUE(io_.until([&] { return taken->done; }));
    const std::string told = taken->error ? taken->error->code : taken->lease->name;
    taken->lease.reset();
    settle();
    return told;
  }
  void settle() {
    io_.until([&] { return false; }, 0.02);
  }
  const ModelPool::Entry& entry(const std::string& name) {
    for (const auto* e : pool_->entries())
      if (e->name == name) return *e;
    static const ModelPool::Entry none;
    return none;
  }
  std::string loaded() {
    std::string names;
    for (const auto* e : pool_->entries())
      if (e->model) names += e->name;
    return names;
  }

  // As a client's adapter, of a directory below dir_.
  ServedAdapter theirs(const std::string& name) {
    std::filesystem::create_directories(dir_.file(name));
    return {.name = name, .path = std::filesystem::canonical(dir_.file(name)), .from_client = true};
  }

  ::anabranch::testing::TempDir dir_;  // from where clients may load adapters
  KeepLoaded first_keep_;
  FakeModels fakes_;
  IoThread io_;
  std::unique_ptr<ModelPool> pool_;
};

}  // namespace anabranch::server
