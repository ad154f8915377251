// Options that bound what a running engine does: the gap between tokens, the machine's memory, what is worth
// the disk.
#include <atomic>
#include <filesystem>
#include <thread>

#include "engine/crowd.h"
#include "engine/engine_model.h"
#include "engine/scripted_model.h"
#include "engine/sequence.h"

namespace anabranch::testing {
namespace {

int digits(const std::vector<int>& tokens) {
  return static_cast<int>(tokens.size()) % 10;
}

// Milliseconds, of which the prompt beside a stream takes its part.
TEST(EngineLimits, APromptBesideAStreamIsReadInPartsThatFitTheGap) {
  ScriptedModel::token_time = std::chrono::microseconds(200);
  EngineOptions options;
  options.device.threads = 1;
  options.max_gap_ms = 8;
  options.prefill_chunk = 2048;
  const auto engine = scripted_engine({digits}, options);
  Collector collector;
  int last = 0, largest = 0;
  const Sink measures = [&, to = collector.sink(1)](const Event& event) {
    if (event.prefilled > 0)
      largest = std::max(largest, event.prefilled - std::exchange(last, event.prefilled));
    to(event);
  };
  const auto come = [&] {
    Request request = request_of(1600, 1, 0);
    request.prompt[0] = 0;
    request.progress = true;
    EXPECT_TRUE(engine->submit(request, measures).ok());
  };
  Request stream = request_of(4, 500, 0);
  stream.prompt[0] = 0;
  stream.speculation = SpecMode{.automatic = false, .source = DraftSource::none};
  const auto id = engine->submit(stream, when_delivered(10, come, collector.sink(0)));
  ASSERT_TRUE(id.ok());
  EXPECT_EQ(collector.wait(1).last.error, "");
  engine->cancel(*id);
  collector.wait(0);
  ScriptedModel::token_time = std::chrono::microseconds(0);
  EXPECT_EQ(last, 1600);
  EXPECT_LE(largest, 120) << "36 tokens take 8 ms";
}

// What other programs take is taken from the cache first, and then nobody begins beside another.
TEST(EngineLimits, WhenTheMachineIsShortOfMemoryBudgetsShrink) {
  const TempDir root;
  std::filesystem::create_directories(root.file("proc"));
  const auto leave = [&](const char* kib) {
    root.write("proc/new", std::string("MemAvailable: ") + kib + " kB\n");
    std::filesystem::rename(root.file("proc/new"), root.file("proc/meminfo"));
  };
  leave("900000000");
  const Variable variable("ANABRANCH_MEMORY_ROOT", root.path().c_str());
  const TinyModel model("qwen35_flat_tied");
  EngineOptions options;
  options.model_path = model.path();
  options.device.threads = 1;
  options.cache.enabled = true;
  options.cache.ram_bytes = 1ull << 28;
  const auto engine = engine_with(options, false);
  const auto holds = [&](const std::function<bool(const EngineStats&)>& what) {
    for (int i = 0; i < 100; i++) {  // budgets are looked at twice a second, and each second if nothing runs
      run(*engine, request_of(5, 2));
      if (what(engine->stats())) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return false;
  };
  Request long_one = request_of(600, 4);
  run(*engine, long_one);
  const uint64_t full = engine->stats().state_budget_bytes;
  EXPECT_GT(engine->stats().cache->ram_bytes, 0u);
  leave("1");
  EXPECT_TRUE(holds([&](const EngineStats& stats) {
    return stats.state_budget_bytes < full && stats.cache->ram_bytes == 0;
  }));
  Collector collector;
  int most = 0;
  const auto counted = [&](int key) {
    return [&, to = collector.sink(key)](const Event& event) {
      most = std::max(most, engine->stats().running);
      to(event);
    };
  };
  const auto together = [&](int first) {
    most = 0;
    for (int i = first; i < first + 3; i++) EXPECT_TRUE(engine->submit(request_of(300, 30), counted(i)).ok());
    for (int i = first; i < first + 3; i++) EXPECT_EQ(collector.wait(i).tokens.size(), 30u);
    return most;
  };
  EXPECT_EQ(together(0), 1);
  leave("900000000");
  EXPECT_TRUE(holds([&](const EngineStats& stats) { return stats.state_budget_bytes == full; }));
  EXPECT_GT(together(3), 1);
  EXPECT_GT(engine->stats().cache->ram_bytes, 0u);
}

// The engine measures what a token of a prompt takes.
TEST(EngineLimits, StatesThatTakeLongToComputeAreWrittenToTheDisk) {
  const TinyModel model("qwen35_flat_tied");
  for (const double worth_s : {1e-9, 1e9}) {
    const TempDir dir;
    EngineOptions options;
    options.model_path = model.path();
    options.device.threads = 1;
    options.cache.enabled = true;
    options.cache.ram_bytes = 1ull << 28;
    options.cache.directory = dir.file("states");
    options.cache.disk_worth_s = worth_s;
    Request request = request_of(2000, 2);
    run(*engine_with(options, false), request);
    EXPECT_EQ(run_to_end(*engine_with(options, false), request).last.usage.cached_tokens > 0, worth_s < 1);
  }
}

TEST(EngineLimits, APreemptedRequestBeginsOnceForItsClient) {
  const TinyModel model("qwen35_flat_tied");
  EngineOptions options;
  options.model_path = model.path();
  options.device.threads = 1;
  options.memory_bytes = tight_memory(options, false, 1);
  const auto engine = engine_with(options, false);
  Crowd crowd(*engine);
  std::atomic<int> started{0};
  Collector collector;
  const Sink counts = [&, to = collector.sink(0)](const Event& event) {
    started += event.started;
    to(event);
  };
  ASSERT_TRUE(engine
                  ->submit(request_of(60, 100), when_delivered(
                                                    20, [&] { crowd.come(); }, counts))
                  .ok());
  EXPECT_EQ(collector.wait(0).tokens.size(), 100u);
  crowd.expect_answers();
  EXPECT_EQ(engine->stats().preempted, 1u);
  EXPECT_EQ(started, 1);
}

// Calibration found that drafts from these layers are hardly worth their time: only who asks gets them.
TEST(EngineLimits, DraftsThatHardlyPayAreMadeOnRequestOnly) {
  const TinyModel files("qwen35_nested_untied_grouped");
  for (const auto& [exit, skip] : {std::pair(1.05, 1.6), {1.6, 1.05}}) {
    files.write(
        "speculation.json",
        fmt::format(
            R"({{"version": 1, "exit_layers": [0, 1], "exit_rate": {}, "skip_layers": [2], "skip_rate": {}}})",
            exit, skip));
    EngineOptions options;
    options.model_path = files.path();
    options.device.threads = 1;
    EngineModel model;
    ASSERT_TRUE(
        model
            .load(options,
                  [&](std::shared_ptr<Device> device) { return load_model(files.path(), std::move(device)); })
            .ok());
    const auto& only = model.speculation().only_on_request;
    EXPECT_EQ(only[static_cast<size_t>(DraftSource::exit)], exit < 1.1);
    EXPECT_EQ(only[static_cast<size_t>(DraftSource::skip)], skip < 1.1);
  }
}

// What was measured of drafts is there for the next run.
TEST(EngineLimits, StatisticsOfDraftsOutliveTheEngine) {
  const TempDir home;
  const Variable variable("XDG_CACHE_HOME", home.path().c_str());
  const TinyModel model("qwen35_flat_tied");
  EngineOptions options;
  options.model_path = model.path();
  options.device.threads = 1;
  for (const bool keeps : {false, true}) {
    options.keep_statistics = keeps;
    run(*engine_with(options, false), request_of(40, 60, 0));
    int files = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(home.path()))
      files += entry.is_regular_file();
    EXPECT_EQ(files, keeps ? 1 : 0);
  }
}

// A client that asked for all tokens gets them, also of a model that repeats itself.
TEST(EngineLimits, LoopsAreNotCutWhereEndsAreIgnored) {
  const auto engine = scripted_engine({[](const std::vector<int>&) { return 7; }});
  Request request = request_of(5, 9000, 0);
  request.prompt[0] = 0;
  EXPECT_EQ(run(*engine, request).size(), 9000u);
  request.ignore_eos = false;
  EXPECT_LT(run(*engine, request).size(), 9000u);
}

}  // namespace
}  // namespace anabranch::testing
