// Requests that fail in the middle of a draft or of steps that overlap: they end with an error, and all
// others and the next ones are answered.
#include <stdexcept>

#include "engine/crowd.h"
#include "engine/scripted_model.h"
#include "variable.h"

namespace anabranch::testing {
namespace {

constexpr SpecMode kPlain{.automatic = false, .source = DraftSource::none};

// llama3_rope_untied with a token whose embedding is no number: logits behind it are none either. A draft
// model that is sound proposes it.
class FailingDraft : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.model_path = sound_.path();
    options_.device.threads = 1;
    const auto engine = engine_with(options_, false);
    want_ = run(*engine, request());
    next_want_ = run(*engine, next_request());
    // The poison is a token of the answer that is new in it.
    const auto is_new = [&](size_t i) {
      const auto prompt = request().prompt, other = next_request().prompt;
      return std::count(want_.begin(), want_.begin() + static_cast<long>(i), want_[i]) == 0 &&
             std::ranges::count(prompt, want_[i]) + std::ranges::count(other, want_[i]) +
                     std::ranges::count(next_want_, want_[i]) ==
                 0;
    };
    for (poisoned_at_ = 3; poisoned_at_ < want_.size() && !is_new(poisoned_at_);) poisoned_at_++;
    ASSERT_LT(poisoned_at_, want_.size()) << "no token of the answer is new";
    const auto poison = static_cast<size_t>(want_[poisoned_at_]);
    poisoned_.edit_tensors([&](const std::string& name, std::vector<int64_t>& shape, std::string& bytes) {
      if (name.find("embed_tokens") == std::string::npos) return;
      const size_t row = bytes.size() / static_cast<size_t>(shape[0]);
      for (size_t i = 0; i < row; i += 2) bytes.replace(poison * row + i, 2, "\xc0\x7f");
    });
    options_.model_path = poisoned_.path();
    options_.draft_path = sound_.path();
    options_.cache.enabled = true;
    options_.cache.ram_bytes = 1ull << 28;
  }

  static Request request() {
    Request r = request_of(60, 60, 0.9f, 8);
    for (int& token : r.prompt) token %= 60;
    r.speculation = kPlain;
    return r;
  }
  static Request next_request() {
    Request r = request_of(50, 6, 0.9f, 9);
    for (int& token : r.prompt) token = token % 60 + 1;
    r.speculation = kPlain;
    return r;
  }

  TinyModel sound_{"llama3_rope_untied"}, poisoned_{"llama3_rope_untied"};
  EngineOptions options_;
  std::vector<int> want_, next_want_;
  size_t poisoned_at_ = 0;
};

TEST_F(FailingDraft, EndsOnlyItsRequestWithTheCacheOn) {
  for (const bool overlap : {false, true}) {
    const auto engine = engine_with(options_, overlap);
    for (const int depth : {0, 3, 8}) {
      SCOPED_TRACE(fmt::format("overlap {}, drafts of {}", overlap, depth));
      Request failing = request();
      failing.logprobs = 0;
      if (depth > 0)
        failing.speculation = SpecMode{.automatic = false, .source = DraftSource::draft, .depth = depth};
      for (const char* round : {"first", "again"}) {
        const auto got = run_to_end(*engine, failing);
        EXPECT_EQ(got.last.finish, FinishReason::error) << round;
        EXPECT_NE(got.last.error.find("not numbers"), std::string::npos) << got.last.error;
        EXPECT_LE(got.tokens.size(), poisoned_at_ + 1);
        EXPECT_TRUE(std::equal(got.tokens.begin(), got.tokens.end(), want_.begin()));
        EXPECT_EQ(got.logprobs.size(), got.tokens.size()) << "only delivered tokens are told of";
        expect_idle(*engine);
      }
      EXPECT_EQ(run(*engine, next_request()), next_want_);
    }
    EXPECT_EQ(engine->stats().failed, 6u);
  }
}

Request request_of_script(int script, int max_tokens) {
  Request r = request_of(5, max_tokens, 0);
  r.prompt[0] = script;
  r.speculation = kPlain;
  return r;
}

const std::vector<Script> kCounting = {
    [](const std::vector<int>& tokens) { return static_cast<int>(tokens.size()) * 3 % 250; },
    [](const std::vector<int>& tokens) {
      if (tokens.size() > 20) throw std::runtime_error("a layer broke");
      return 7;
    }};

// Of many requests some wait for their last token, in the pending step, while the next step fails.
TEST(FailingStep, RequestsOfThePendingStepGetAllTheirTokens) {
  EngineOptions options;
  options.max_running = 24;
  for (const char* overlap : {"0", "1"}) {
    const Variable variable("ANABRANCH_OVERLAP", overlap);
    const auto engine = scripted_engine(kCounting, options);
    Collector collector;
    for (int i = 0; i < 20; i++)
      ASSERT_TRUE(engine->submit(request_of_script(0, 8 + i), collector.sink(i)).ok());
    ASSERT_TRUE(engine->submit(request_of_script(1, 60), collector.sink(100)).ok());
    EXPECT_EQ(collector.wait(100).last.finish, FinishReason::error);
    for (int i = 0; i < 20; i++) {
      const auto got = collector.wait(i);
      EXPECT_EQ(got.last.finish, FinishReason::length) << i << ": " << got.last.error;
      ASSERT_EQ(got.tokens.size(), static_cast<size_t>(8 + i));
      for (int n = 0; n < 8 + i; n++) EXPECT_EQ(got.tokens[static_cast<size_t>(n)], (5 + n) * 3 % 250) << i;
    }
    expect_idle(*engine);
  }
}

// With overlap, too, a step of a request that runs alone is collected before the next one is submitted: else
// each failure would take the neighbour with it, again and again, until that one ends.
TEST(FailingStep, OverlapWaitsWhileRequestsAreIsolated) {
  const Variable variable("ANABRANCH_OVERLAP", "1");
  const auto engine = scripted_engine(
      {kCounting[0], [](const std::vector<int>&) -> int { throw std::runtime_error("a layer broke"); }});
  Collector collector;
  int tokens = 0, at_the_error = -1;  // on the engine's thread
  const Sink failing = [&, to = collector.sink(1)](const Event& event) {
    if (event.finish == FinishReason::error) at_the_error = tokens;
    to(event);
  };
  const Sink counting = [&, to = collector.sink(0)](const Event& event) {
    tokens += static_cast<int>(event.tokens.size());
    to(event);
  };
  const auto come = [&] { EXPECT_TRUE(engine->submit(request_of_script(1, 60), failing).ok()); };
  ASSERT_TRUE(engine->submit(request_of_script(0, 300), when_delivered(5, come, counting)).ok());
  EXPECT_EQ(collector.wait(0).tokens.size(), 300u);
  EXPECT_EQ(collector.wait(1).last.finish, FinishReason::error);
  EXPECT_LT(at_the_error, 100);
}

TEST(FailingStep, EndedRequestsMakeRoomForOthers) {
  EngineOptions options;
  options.max_running = 1;
  options.max_queue = 1;
  Collector collector;  // outlives the engine, which still tells it of the requests that it cancels
  const auto engine = scripted_engine(kCounting, options);
  for (int i = 0; i < 6; i++) {
    EXPECT_EQ(run(*engine, request_of_script(0, 3)).size(), 3u);
    EXPECT_EQ(run_to_end(*engine, request_of_script(1, 60)).last.finish, FinishReason::error);
  }
  for (int i = 0; i < 2; i++)
    EXPECT_TRUE(engine->submit(request_of_script(0, 20'000), collector.sink(i)).ok());
  const auto third = engine->submit(request_of_script(0, 3), collector.sink(2));
  ASSERT_FALSE(third.ok());
  EXPECT_EQ(third.error().kind, ErrorKind::busy);
}

}  // namespace
}  // namespace anabranch::testing
