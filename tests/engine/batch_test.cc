// Many requests at once: each says what it says alone, whatever runs beside it, has to wait, or fails.
#include <algorithm>
#include <memory>

#include "engine/scripted_model.h"

namespace anabranch {
namespace {

using testing::Collector;
using testing::request_of;
using testing::run_to_end;
using testing::TinyModel;

constexpr SpecMode kOff{.automatic = false, .source = DraftSource::none};

std::unique_ptr<Engine> start(const EngineOptions& options) {
  auto engine = Engine::create(options);
  EXPECT_TRUE(engine.ok()) << engine.error().message;
  return std::move(*engine);
}

EngineOptions options_of(const std::string& path, int max_running, bool cache = false) {
  EngineOptions options;
  options.model_path = path;
  options.device.threads = 2;
  options.max_running = max_running;
  options.cache.enabled = cache;
  options.cache.ram_bytes = 1ull << 28;
  return options;
}

// Of every kind: prompts that begin alike, ways to sample, thoughts with budgets, stop strings, speculation.
std::vector<Request> mixed_requests(const Engine& engine, int count, int longest, int max_tokens) {
  const auto close = engine.tokenizer().find("</think>");
  const auto& sources = engine.info().draft_sources;
  std::vector<Request> out;
  for (int i = 0; i < count; i++) {
    Request r = request_of(1, max_tokens / 2 + i * 7 % (max_tokens / 2), 0.4f * (i % 4), 100 + i);
    const int length = 3 + (i * 53) % longest, other = i % 4 * 31;
    r.prompt.clear();
    for (int t = 0; t < length; t++) r.prompt.push_back((t * 7 + t / 11 + (t >= 70 ? i : 0) + other) % 250);
    if (i % 4 == 3)
      for (int t = length / 2; t < length; t++) r.prompt[t] = r.prompt[t - length / 2];  // text that repeats
    r.ignore_eos = i % 3 == 0;
    r.output.thinking_open = close && i % 5 == 1;
    if (r.output.thinking_open) r.thinking.budget = 4 + i;
    if (i % 6 == 2) r.logprobs = i % 4;
    if (i % 5 == 2) r.sampling.top_k = 20;
    if (i % 5 == 3) r.sampling.top_p = 0.8f;
    if (i % 5 == 4) r.sampling.min_p = 0.02f;
    if (i % 7 == 3) r.sampling.repetition_penalty = 1.2f;
    if (i % 7 == 4) r.sampling.frequency_penalty = 0.4f;
    if (i % 7 == 5) r.sampling.presence_penalty = 0.5f;
    if (i % 7 == 6) r.sampling.dry.multiplier = 0.8f;
    if (i % 11 == 3) r.sampling.mirostat = 1 + i % 2;
    if (i % 11 == 5) r.sampling.typical_p = 0.8f;
    if (i % 11 == 7) r.sampling.top_n_sigma = 1.5f;
    if (i % 11 == 9) r.sampling.dynatemp_range = 0.5f;
    if (i % 10 == 4) r.output.min_tokens = 20;
    if (i % 10 == 6) r.output.stop_tokens = {33, 60, 90};
    if (i % 8 == 6) r.sampling.logit_bias = {{17, 3.0f}, {40, -2.0f}};
    if (i % 4 == 1) r.stop = {"e", "\xc3"};
    if (i % 3 == 1)
      r.speculation = SpecMode{
          .automatic = false, .source = sources[static_cast<size_t>(i) % sources.size()], .depth = i % 6};
    if (i % 9 == 8) r.speculation = kOff;
    r.cache = i % 8 != 7;
    r.priority = i % 3;
    out.push_back(std::move(r));
  }
  return out;
}

void expect_same(const Collector::Record& got, const Collector::Record& want, const std::string& what) {
  EXPECT_EQ(got.tokens, want.tokens) << what;
  EXPECT_EQ(got.terminal, 1) << what;
  EXPECT_EQ(got.last.finish, want.last.finish) << what << ": " << got.last.error;
  EXPECT_EQ(got.last.usage.completion_tokens, want.last.usage.completion_tokens) << what;
  EXPECT_EQ(got.last.usage.thinking_tokens, want.last.usage.thinking_tokens) << what;
  EXPECT_EQ(got.last.usage.cut, want.last.usage.cut) << what;
  ASSERT_EQ(got.logprobs.size(), want.logprobs.size()) << what;
  for (size_t i = 0; i < got.logprobs.size(); i++) {
    EXPECT_EQ(got.logprobs[i].logprob, want.logprobs[i].logprob) << what;
    EXPECT_EQ(got.logprobs[i].top.size(), want.logprobs[i].top.size()) << what;
  }
}

void expect_all_free(const Engine& engine) {
  const EngineStats stats = engine.stats();
  EXPECT_EQ(stats.running + stats.queued, 0);
  EXPECT_EQ(stats.state_bytes, 0u);
  EXPECT_EQ(stats.requests, stats.finished + stats.cancelled + stats.failed);
}

std::vector<Collector::Record> alone(const EngineOptions& options, const std::vector<Request>& requests) {
  const auto engine = start(options);
  std::vector<Collector::Record> out;
  for (Request request : requests) {
    request.speculation = kOff;
    out.push_back(run_to_end(*engine, std::move(request)));
  }
  return out;
}

// All at once, and between them some that are cancelled on the way.
void run_together(Engine& engine, const std::vector<Request>& requests,
                  const std::vector<Collector::Record>& want, const std::string& what) {
  Collector collector;
  std::vector<RequestId> cancelled;
  for (size_t i = 0; i < requests.size(); i++) {
    ASSERT_TRUE(engine.submit(requests[i], collector.sink(static_cast<int>(i))).ok());
    if (i % 8 != 0) continue;
    const auto id = engine.submit(request_of(30, 1000), collector.sink(1000 + static_cast<int>(i)));
    ASSERT_TRUE(id.ok());
    cancelled.push_back(*id);
  }
  for (const RequestId id : cancelled) engine.cancel(id);
  for (size_t i = 0; i < requests.size(); i++)
    expect_same(collector.wait(static_cast<int>(i)), want[i], what + ", request " + std::to_string(i));
  for (size_t i = 0; i < requests.size(); i += 8)
    EXPECT_EQ(collector.wait(1000 + static_cast<int>(i)).last.finish, FinishReason::cancelled);
  expect_all_free(engine);
}

TEST(Batch, EachOf32MixedRequestsEqualsItsRunAlone) {
  for (const char* name :
       {"qwen35_nested_untied_grouped", "qwen35_flat_tied", "llama_tied", "qwen35_moe_nested_mtp"}) {
    const TinyModel model(name), draft("qwen35_flat_tied");
    const bool hybrid = std::string(name) != "llama_tied";
    if (hybrid)
      model.write("speculation.json", R"({"version": 1, "exit_layers": [0, 1, 2], "skip_layers": [1]})");
    auto options = options_of(model.path(), 1);
    if (hybrid) options.draft_path = draft.path();
    const auto requests = mixed_requests(*start(options), 32, 500, 60);
    const auto want = alone(options, requests);
    int thought = 0, stopped = 0;
    for (const auto& record : want) {
      thought += record.last.usage.thinking_tokens > 0;
      stopped += record.last.finish == FinishReason::stop;
    }
    EXPECT_GE(thought, 4) << name;
    EXPECT_GE(stopped, 2) << name;
    for (const int max_running : {5, 32}) {
      auto together = options_of(model.path(), max_running, true);
      together.draft_path = options.draft_path;
      const auto engine = start(together);
      for (const char* round : {"cold", "kept"})
        run_together(*engine, requests, want, fmt::format("{}, {} at a time, {}", name, max_running, round));
      EXPECT_GT(engine->stats().cache->ram_hits, 10u) << name;
    }
  }
}

TEST(Batch, TheTrainedModelSaysTheSameInABatch) {
  const std::string path = ANABRANCH_SOURCE_DIR "/models/hybrid-146m";
  const auto requests = mixed_requests(*start(options_of(path, 1)), 16, 150, 24);
  const auto want = alone(options_of(path, 1), requests);
  run_together(*start(options_of(path, 16, true)), requests, want, "hybrid-146m");
}

TEST(Batch, WhatOutgrowsTheMemoryWaitsAndGoesOnWithTheSameTokens) {
  const TinyModel model("qwen35_nested_untied_grouped");
  std::vector<Request> requests;
  for (int i = 0; i < 6; i++) requests.push_back(request_of(150 + 20 * i, 600, 0.8f, i));
  const auto want = alone(options_of(model.path(), 1), requests);
  const ModelInfo info = start(options_of(model.path(), 1))->info();
  for (const bool cache : {true, false}) {
    auto options = options_of(model.path(), 6, cache);
    // Room for all as they begin, and for three as they end.
    options.memory_bytes = 6 * (info.state_bytes + info.draft_state_bytes) +
                           6 * 512 * (info.kv_bytes_per_token + info.draft_kv_bytes_per_token);
    const auto engine = start(options);
    Collector collector;
    for (int i = 0; i < 6; i++) ASSERT_TRUE(engine->submit(requests[i], collector.sink(i)).ok());
    for (int i = 0; i < 6; i++)
      expect_same(collector.wait(i), want[i], fmt::format("request {}, cache {}", i, cache));
    EXPECT_GT(engine->stats().preempted, 0u);
    EXPECT_LE(engine->stats().preempted, 12u);  // they do not push each other out again and again
    expect_all_free(*engine);
  }
}

TEST(Batch, AContextThatDoesNotFitSaysWhatIsMissing) {
  const TinyModel model("qwen35_flat_tied");
  auto options = options_of(model.path(), 1);
  const ModelInfo info = start(options)->info();
  options.memory_bytes = info.state_bytes + info.draft_state_bytes + 512 * info.kv_bytes_per_token;
  const auto engine = start(options);
  EXPECT_LT(engine->info().context_length, 512);
  EXPECT_GE(engine->info().context_length, 200);
  Collector collector;
  const auto id = engine->submit(request_of(600, 4), collector.sink(0));
  ASSERT_FALSE(id.ok());
  EXPECT_EQ(id.error().kind, ErrorKind::exhausted);
  EXPECT_NE(id.error().message.find("--memory"), std::string::npos) << id.error().message;
}

TEST(Batch, WhatBeginsAlikeIsComputedOnce) {
  for (const char* name : {"qwen35_flat_tied", "llama_tied"}) {
    const TinyModel model(name);
    std::vector<Request> requests;
    for (int i = 0; i < 6; i++) requests.push_back(request_of(500, 20, 0.9f, i));
    requests.back().cache_salt = "another";
    const auto want = alone(options_of(model.path(), 1), requests);
    const auto engine = start(options_of(model.path(), 6, true));
    Collector collector;
    for (int i = 0; i < 6; i++) ASSERT_TRUE(engine->submit(requests[i], collector.sink(i)).ok());
    for (int i = 0; i < 6; i++) {
      expect_same(collector.wait(i), want[i], fmt::format("{}, request {}", name, i));
      EXPECT_EQ(collector.wait(i).last.usage.cached_tokens, i == 0 || i == 5 ? 0 : 499)
          << name << ", request " << i;
    }
  }
}

TEST(Batch, LowerPrioritiesAreServedFirst) {
  const TinyModel model("qwen35_flat_tied");
  const auto engine = start(options_of(model.path(), 1));
  Collector collector;
  const auto first = engine->submit(request_of(4, 3000), collector.sink(0));
  collector.wait_for_tokens(0, 1);
  for (int i = 1; i <= 3; i++) {
    Request r = request_of(4, 20);
    r.priority = -i;
    ASSERT_TRUE(engine->submit(r, collector.sink(i)).ok());
  }
  engine->cancel(*first);
  for (int i = 1; i < 3; i++)
    EXPECT_GT(collector.wait(i).last.usage.queue_s, collector.wait(i + 1).last.usage.queue_s);
}

// One script throws in the middle of a pass that it shares.
TEST(Batch, AFailureEndsOnlyTheRequestThatCausedIt) {
  const auto count = [](int stride) {
    return
        [stride](const std::vector<int>& tokens) { return static_cast<int>(tokens.size()) * stride % 250; };
  };
  const testing::Script broken = [](const std::vector<int>& tokens) {
    if (tokens.size() > 20) throw std::runtime_error("a layer broke");
    return 7;
  };
  const auto engine = testing::scripted_engine({count(3), broken, count(7), count(11)});
  Collector collector;
  for (int i = 0; i < 4; i++) {
    Request r = request_of(5, 60);
    r.prompt[0] = i;
    r.speculation = kOff;  // a draft beyond the 20th token would break it sooner
    ASSERT_TRUE(engine->submit(r, collector.sink(i)).ok());
  }
  EXPECT_EQ(collector.wait(1).last.finish, FinishReason::error);
  EXPECT_NE(collector.wait(1).last.error.find("a layer broke"), std::string::npos);
  EXPECT_EQ(collector.wait(1).tokens, std::vector<int>(16, 7));
  for (const auto& [key, stride] : std::map<int, int>{{0, 3}, {2, 7}, {3, 11}}) {
    const auto record = collector.wait(key);
    EXPECT_EQ(record.last.finish, FinishReason::length) << record.last.error;
    std::vector<int> want;
    for (int n = 5; n < 65; n++) want.push_back(n * stride % 250);
    EXPECT_EQ(record.tokens, want);
  }
  expect_all_free(*engine);
}

}  // namespace
}  // namespace anabranch
