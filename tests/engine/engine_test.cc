// The real engine over a tiny random hybrid: every request ends with exactly one terminal event, and its
// tokens depend on prompt, parameters and seed only.
#include "engine/engine.h"

#include <algorithm>
#include <memory>

#include "base/clock.h"
#include "engine/crowd.h"

namespace anabranch {
namespace {

using testing::Collector;
using testing::request_of;
using testing::run;
using testing::run_to_end;

class EngineTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { model_ = std::make_unique<testing::TinyModel>("qwen35_flat_tied"); }
  static void TearDownTestSuite() { model_.reset(); }

  static std::unique_ptr<Engine> make(int prefill_chunk = 512, int threads = 0, int max_queue = 64,
                                      int max_running = 8) {
    EngineOptions options;
    options.model_path = model_->path();
    options.prefill_chunk = prefill_chunk;
    options.device.threads = threads;
    options.max_queue = max_queue;
    options.max_running = max_running;
    auto engine = Engine::create(options);
    EXPECT_TRUE(engine.ok()) << engine.error().message;
    return std::move(*engine);
  }

  static inline std::unique_ptr<testing::TinyModel> model_;
};

TEST_F(EngineTest, TokensDependOnNeitherChunksNorThreads) {
  const auto expected = run(*make(), request_of(300, 40));
  EXPECT_EQ(expected.size(), 40u);
  EXPECT_EQ(run(*make(1), request_of(300, 40)), expected);
  EXPECT_EQ(run(*make(7), request_of(300, 40)), expected);
  EXPECT_EQ(run(*make(64, 1), request_of(300, 40)), expected);
  EXPECT_EQ(run(*make(64, 2), request_of(300, 40)), expected);
  EXPECT_NE(run(*make(), request_of(300, 40, 0.8f, 12)), expected);
}

TEST_F(EngineTest, EveryRequestEndsExactlyOnce) {
  auto engine = make();
  Collector collector;
  for (int i = 0; i < 8; i++) ASSERT_TRUE(engine->submit(request_of(3 + i, 5 + i), collector.sink(i)).ok());
  for (int i = 0; i < 8; i++) {
    const auto r = collector.wait(i);
    EXPECT_EQ(r.terminal, 1);
    EXPECT_EQ(r.last.finish, FinishReason::length);
    EXPECT_EQ(r.tokens.size(), 5u + i);
    EXPECT_EQ(r.last.usage.prompt_tokens, 3 + i);
    EXPECT_EQ(r.last.usage.completion_tokens, 5 + i);
    EXPECT_EQ(r.tokens, run(*engine, request_of(3 + i, 5 + i)));
  }
  const auto stats = engine->stats();
  EXPECT_EQ(stats.requests, 16u);
  EXPECT_EQ(stats.finished, 16u);
  EXPECT_EQ(stats.running + stats.queued, 0);
}

TEST_F(EngineTest, TheStatisticsSayWhoRunsAndWhoWaits) {
  const auto engine = make(512, 0, 64, 1);
  Collector collector;
  EngineStats meanwhile;
  const auto come = [&] {
    for (int i = 1; i < 4; i++) EXPECT_TRUE(engine->submit(request_of(3, 2), collector.sink(i)).ok());
  };
  const auto note = [&] { meanwhile = engine->stats(); };
  const Sink sink = testing::when_delivered(20, note, testing::when_delivered(1, come, collector.sink(0)));
  ASSERT_TRUE(engine->submit(request_of(3, 100), sink).ok());
  for (int i = 0; i < 4; i++) collector.wait(i);
  EXPECT_EQ(meanwhile.running, 1);
  EXPECT_EQ(meanwhile.queued, 3);
  testing::expect_idle(*engine);
}

TEST_F(EngineTest, CancelEndsRunningAndWaitingRequests) {
  auto engine = make(512, 0, 64, 1);
  Collector collector;
  const auto first = engine->submit(request_of(4, 3000), collector.sink(0));
  const auto second = engine->submit(request_of(4, 3000), collector.sink(1));
  ASSERT_TRUE(first.ok() && second.ok());
  collector.wait_for_tokens(0, 3);
  engine->cancel(*second);
  EXPECT_EQ(collector.wait(1).last.finish, FinishReason::cancelled);
  EXPECT_TRUE(collector.wait(1).tokens.empty());
  engine->cancel(*first);
  EXPECT_EQ(collector.wait(0).last.finish, FinishReason::cancelled);
  engine->cancel(*first);  // finished: ignored
  EXPECT_EQ(run(*engine, request_of(4, 6)).size(), 6u);
  EXPECT_EQ(engine->stats().cancelled, 2u);
}

// Both come to the engine between the same two steps.
TEST_F(EngineTest, ARequestMayBeCancelledBeforeItIsSeen) {
  auto engine = make();
  Collector collector;
  const auto come_and_leave = [&] {
    const auto id = engine->submit(request_of(20, 50), collector.sink(1));
    ASSERT_TRUE(id.ok());
    engine->cancel(*id);
  };
  ASSERT_TRUE(
      engine->submit(request_of(20, 5), testing::when_delivered(2, come_and_leave, collector.sink(0))).ok());
  EXPECT_EQ(collector.wait(0).tokens.size(), 5u);
  const auto got = collector.wait(1);
  EXPECT_EQ(got.last.finish, FinishReason::cancelled);
  EXPECT_TRUE(got.tokens.empty());
}

TEST_F(EngineTest, ProgressIsToldOfThePromptOnly) {
  auto engine = make(64);
  Request request = request_of(300, 20);
  request.progress = true;
  std::vector<int> told;
  Collector collector;
  const Sink sink = [&, to = collector.sink(0)](const Event& event) {
    if (event.prefilled > 0) told.push_back(event.prefilled);
    to(event);
  };
  ASSERT_TRUE(engine->submit(request, sink).ok());
  EXPECT_EQ(collector.wait(0).tokens.size(), 20u);
  EXPECT_GE(told.size(), 3u);
  EXPECT_TRUE(std::ranges::is_sorted(told));
  EXPECT_EQ(std::ranges::count(told, 300), 1);
  EXPECT_EQ(told.back(), 300);
}

TEST_F(EngineTest, DestructionEndsWhatRuns) {
  Collector collector;
  {
    auto engine = make();
    ASSERT_TRUE(engine->submit(request_of(4, 3000), collector.sink(0)).ok());
    ASSERT_TRUE(engine->submit(request_of(4, 3000), collector.sink(1)).ok());
    collector.wait_for_tokens(0, 1);
  }
  EXPECT_EQ(collector.wait(0).last.finish, FinishReason::cancelled);
  EXPECT_EQ(collector.wait(1).terminal, 1);
}

TEST_F(EngineTest, StopStringsEndTheAnswer) {
  auto engine = make();
  const auto free_run = run(*engine, request_of(20, 60));
  const std::string text = engine->tokenizer().decode(free_run, true);
  // Stop at bytes that occur in the middle of the free run's text.
  Request r = request_of(20, 60);
  r.stop = {text.substr(text.size() / 2, 3)};
  Collector collector;
  ASSERT_TRUE(engine->submit(r, collector.sink(0)).ok());
  const auto stopped = collector.wait(0);
  EXPECT_EQ(stopped.last.finish, FinishReason::stop);
  EXPECT_LT(stopped.tokens.size(), free_run.size());
  EXPECT_TRUE(std::equal(stopped.tokens.begin(), stopped.tokens.end(), free_run.begin()));
}

// It takes no client's place in the queue, and is in no count of requests.
TEST_F(EngineTest, WorkInTheBackgroundIsNotCounted) {
  auto engine = make(512, 0, 1, 1);
  for (uint64_t round = 1; round <= 3; round++) {
    Collector collector;
    Request behind = request_of(20, -1);
    behind.background = true;
    const auto id = engine->submit(behind, collector.sink(0));
    ASSERT_TRUE(id.ok());
    collector.wait_for_tokens(0, 1);
    for (int i = 1; i <= 2; i++) EXPECT_TRUE(engine->submit(request_of(20, 2), collector.sink(i)).ok()) << i;
    EXPECT_FALSE(engine->submit(request_of(20, 2), collector.sink(3)).ok()) << "the queue is full";
    engine->cancel(*id);
    for (int i = 0; i <= 2; i++)
      EXPECT_EQ(collector.wait(i).last.finish, i > 0 ? FinishReason::length : FinishReason::cancelled);
    const EngineStats stats = engine->stats();
    EXPECT_EQ(stats.requests, 2 * round);
    EXPECT_EQ(stats.finished, 2 * round);
    EXPECT_EQ(stats.cancelled, 0u);
  }
}

// The second request waits for the first one.
TEST_F(EngineTest, TimesAndSumsAreOfWhatHappened) {
  for (const char* overlap : {"0", "1"}) {
    const testing::Variable variable("ANABRANCH_OVERLAP", overlap);
    const auto engine = make(512, 1, 8, 1);
    EXPECT_GT(engine->stats().state_budget_bytes, 0u);
    const double start = now_seconds();
    Collector collector;
    Usage begun;
    const Sink second = [&, to = collector.sink(1)](const Event& event) {
      if (event.started) begun = event.usage;
      to(event);
    };
    const auto come = [&] { EXPECT_TRUE(engine->submit(request_of(30, 20), second).ok()); };
    ASSERT_TRUE(engine->submit(request_of(60, 40), testing::when_delivered(1, come, collector.sink(0))).ok());
    const Usage of[] = {collector.wait(0).last.usage, collector.wait(1).last.usage};
    for (const Usage& usage : of) {
      EXPECT_GT(usage.prefill_s, 0);
      EXPECT_GT(usage.decode_s, 0);
      EXPECT_NEAR(usage.ttft_s, usage.queue_s + usage.prefill_s, 1e-6);
    }
    EXPECT_GT(of[1].queue_s, 0);
    EXPECT_EQ(begun.prompt_tokens, 30);
    EXPECT_EQ(begun.queue_s, of[1].queue_s);
    const EngineStats stats = engine->stats();
    EXPECT_EQ(stats.prompt_tokens, 90u);
    EXPECT_EQ(stats.completion_tokens, 60u);
    EXPECT_EQ(stats.longest, 100u);
    EXPECT_EQ(stats.step_requests, stats.steps);
    EXPECT_DOUBLE_EQ(stats.prefill_s, of[0].prefill_s + of[1].prefill_s);
    EXPECT_DOUBLE_EQ(stats.decode_s, of[0].decode_s + of[1].decode_s);
    EXPECT_GT(stats.busy_s, 0);
    EXPECT_LE(stats.busy_s, now_seconds() - start);
    Request judged = request_of(40, 0);
    judged.prompt_logprobs = true;
    EXPECT_GT(run_to_end(*engine, judged).last.usage.ttft_s, 0);
  }
}

TEST_F(EngineTest, AnAnswerOfNoTokensEndsAtOnce) {
  auto engine = make(512, 0, 1, 1);
  Collector collector;
  ASSERT_TRUE(engine->submit(request_of(3, 0), collector.sink(0)).ok());
  const auto got = collector.wait(0);
  EXPECT_TRUE(got.tokens.empty());
  EXPECT_EQ(got.last.finish, FinishReason::length);
}

TEST_F(EngineTest, BadRequestsAreRefusedWithReasons) {
  auto engine = make(512, 0, 1, 1);
  Collector collector;
  const auto refused = [&](Request r) {
    const auto id = engine->submit(std::move(r), collector.sink(99));
    return id.ok() ? std::string("accepted") : id.error().message;
  };
  EXPECT_NE(refused(Request{}).find("empty"), std::string::npos);
  Request outside = request_of(3, 4);
  outside.prompt[1] = 100000;
  EXPECT_NE(refused(outside).find("outside the vocabulary"), std::string::npos);
  EXPECT_NE(refused(request_of(engine->info().context_length, 4)).find("context"), std::string::npos);

  const auto running = engine->submit(request_of(4, 3000), collector.sink(0));
  collector.wait_for_tokens(0, 1);
  ASSERT_TRUE(engine->submit(request_of(4, 2), collector.sink(1)).ok());
  EXPECT_NE(refused(request_of(4, 2)).find("waiting"), std::string::npos);
  engine->cancel(*running);
  EXPECT_EQ(collector.wait(1).tokens.size(), 2u);
}

TEST_F(EngineTest, ThinkingTokensAreCounted) {
  auto engine = make();
  Request r = request_of(4, 12);
  r.output.thinking_open = true;
  Collector collector;
  ASSERT_TRUE(engine->submit(r, collector.sink(0)).ok());
  const auto record = collector.wait(0);
  const auto close = engine->tokenizer().find("</think>");
  ASSERT_TRUE(close);
  const auto at = std::find(record.tokens.begin(), record.tokens.end(), *close);
  const auto expected = at == record.tokens.end() ? 12 : at - record.tokens.begin() + 1;
  EXPECT_EQ(record.last.usage.thinking_tokens, expected);
}

TEST(EngineCreate, AMissingModelIsAnErrorThatNamesIt) {
  EngineOptions options;
  options.model_path = "/nonexistent/model";
  const auto engine = Engine::create(options);
  ASSERT_FALSE(engine.ok());
  EXPECT_NE(engine.error().message.find("/nonexistent/model"), std::string::npos);
}

}  // namespace
}  // namespace anabranch
