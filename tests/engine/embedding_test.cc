// Embeddings of texts and log probabilities of prompts: the same however the text is cut, whoever is beside
// it, and although it has to begin again.
#include <future>

#include "engine/crowd.h"

namespace anabranch::testing {
namespace {

constexpr int kLong = 600;  // tokens of a text: three blocks of keys and values

Request text_of(int kind, int length) {
  Request request = request_of(length, 1, 0);
  request.prompt[0] = 50 + kind;
  request.progress = true;
  request.priority = 1;
  if (kind < 4) request.pooling = static_cast<Pooling>(kind);
  if (kind == static_cast<int>(Pooling::rank)) request.classes = {7, 3, 120};
  request.prompt_logprobs = kind == 4;
  return request;
}
constexpr int kTexts = 5;

EngineOptions options_of(const TinyModel& model, int chunk) {
  EngineOptions options;
  options.model_path = model.path();
  options.device.threads = 1;
  options.prefill_chunk = chunk;
  options.cache.enabled = true;
  options.cache.ram_bytes = 1ull << 28;
  return options;
}

void expect_same(const Event& got, const Event& want, int kind) {
  EXPECT_EQ(got.error, "") << kind;
  EXPECT_EQ(got.embedding, want.embedding) << kind;
  EXPECT_EQ(got.finish, want.finish) << kind;
  EXPECT_EQ(got.usage.cached_tokens, 0) << kind;
}

// The last event, with the prompt's log probabilities wherever they were told.
Event told(Engine& engine, const Request& request) {
  Event out;
  std::vector<TokenLogprobs> prompt;
  Collector collector;
  const Sink sink = [&, to = collector.sink(0)](const Event& event) {
    prompt.insert(prompt.end(), event.prompt_logprobs.begin(), event.prompt_logprobs.end());
    to(event);
  };
  EXPECT_TRUE(engine.submit(request, sink).ok());
  out = collector.wait(0).last;
  out.prompt_logprobs = std::move(prompt);
  return out;
}

void expect_same_logprobs(const std::vector<TokenLogprobs>& got, const std::vector<TokenLogprobs>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); i++) ASSERT_EQ(got[i].logprob, want[i].logprob) << i;
}

class Embedding : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto engine = engine_with(options_of(model_, 4096), false);
    for (int kind = 0; kind < kTexts; kind++) want_.push_back(told(*engine, text_of(kind, kLong)));
    for (int kind = 0; kind < 3; kind++) EXPECT_EQ(want_[kind].embedding.size(), 32u);
    EXPECT_EQ(want_[static_cast<size_t>(Pooling::rank)].embedding.size(), 3u);
    EXPECT_EQ(want_[4].prompt_logprobs.size(), static_cast<size_t>(kLong) - 1);
    EXPECT_EQ(want_[4].finish, FinishReason::length);
  }

  TinyModel model_{"qwen35_flat_tied"};
  std::vector<Event> want_;
};

TEST_F(Embedding, IsTheSameHoweverTheTextIsCutAndWhenItComesAgain) {
  for (const int chunk : {7, 256}) {
    const auto engine = engine_with(options_of(model_, chunk), false);
    for (int kind = 0; kind < kTexts; kind++)
      for (const char* round : {"first", "second"}) {
        SCOPED_TRACE(fmt::format("{} tokens a step, {}", chunk, round));
        const Event got = told(*engine, text_of(kind, kLong));
        expect_same(got, want_[static_cast<size_t>(kind)], kind);
        expect_same_logprobs(got.prompt_logprobs, want_[static_cast<size_t>(kind)].prompt_logprobs);
      }
    Request answer = text_of(0, kLong);
    answer.pooling.reset();
    EXPECT_EQ(run_to_end(*engine, answer).last.usage.cached_tokens, 0) << "embeddings leave no states";
    // A state of the same text is kept now, and is of no use to those that need all rows.
    expect_same(told(*engine, text_of(0, kLong)), want_[0], 0);
    answer.prompt_logprobs = true;
    EXPECT_EQ(told(*engine, answer).prompt_logprobs.size(), static_cast<size_t>(kLong) - 1);
  }
}

TEST_F(Embedding, IsTheSameBesideOthers) {
  const auto engine = engine_with(options_of(model_, 4096), false);
  std::vector<Event> alone;
  for (int i = 0; i < 2 * kTexts; i++) alone.push_back(told(*engine, text_of(i % kTexts, 40 + i)));
  Collector collector;
  std::map<int, std::vector<TokenLogprobs>> prompts;  // by the engine's thread, until the last event
  for (int i = 0; i < 2 * kTexts; i++) {
    const Sink sink = [&prompts, i, to = collector.sink(i)](const Event& event) {
      prompts[i].insert(prompts[i].end(), event.prompt_logprobs.begin(), event.prompt_logprobs.end());
      to(event);
    };
    ASSERT_TRUE(engine->submit(text_of(i % kTexts, 40 + i), sink).ok());
  }
  for (int i = 0; i < 2 * kTexts; i++) expect_same(collector.wait(i).last, alone[static_cast<size_t>(i)], i);
  for (int i = 0; i < 2 * kTexts; i++)
    expect_same_logprobs(prompts[i], alone[static_cast<size_t>(i)].prompt_logprobs);
  expect_idle(*engine);
}

// Between two chunks; then it begins again.
TEST_F(Embedding, APreemptedTextCountsOnce) {
  EngineOptions options = options_of(model_, 4);
  options.memory_bytes = tight_memory(options, false, 3);
  const auto engine = engine_with(options, false);
  Crowd crowd(*engine);
  for (int kind = 0; kind < kTexts; kind++) {
    const uint64_t before = engine->stats().preempted;
    Collector collector;
    std::vector<TokenLogprobs> prompt;
    const Sink sink = [&, to = collector.sink(0)](const Event& event) {
      prompt.insert(prompt.end(), event.prompt_logprobs.begin(), event.prompt_logprobs.end());
      to(event);
    };
    ASSERT_TRUE(engine
                    ->submit(text_of(kind, kLong), when_delivered(
                                                       1, [&] { crowd.come(); }, sink))
                    .ok());
    const Event got = collector.wait(0).last;
    EXPECT_GT(engine->stats().preempted, before) << kind;
    expect_same(got, want_[static_cast<size_t>(kind)], kind);
    expect_same_logprobs(prompt, want_[static_cast<size_t>(kind)].prompt_logprobs);
    crowd.expect_answers();
    expect_idle(*engine);
  }
}

// The prompt alone is judged: there is no answer to wait for.
TEST_F(Embedding, LogProbabilitiesOfAPromptWithoutAnAnswer) {
  const auto engine = engine_with(options_of(model_, 4096), false);
  Request request = text_of(4, kLong);
  request.max_tokens = 0;
  const Event got = told(*engine, request);
  EXPECT_EQ(got.finish, FinishReason::length);
  EXPECT_EQ(got.usage.completion_tokens, 0);
  expect_same_logprobs(got.prompt_logprobs, want_[4].prompt_logprobs);
  for (const TokenLogprobs& one : got.prompt_logprobs)
    EXPECT_TRUE(one.top.empty()) << "nobody asked for others";
}

TEST_F(Embedding, TheOptionSaysWhatAModelDoesNot) {
  EngineOptions options = options_of(model_, 64);
  EXPECT_FALSE(engine_with(options, false)->info().pooling);
  options.pooling = Pooling::mean;
  EXPECT_EQ(engine_with(options, false)->info().pooling, Pooling::mean);
}

TEST_F(Embedding, ACancelledTextHasNone) {
  const auto engine = engine_with(options_of(model_, 4), false);
  Collector collector;
  std::promise<RequestId> id;
  const auto cancel = [&, known = id.get_future().share()] { engine->cancel(known.get()); };
  const auto submitted = engine->submit(text_of(static_cast<int>(Pooling::mean), kLong),
                                        when_delivered(2, cancel, collector.sink(0)));
  ASSERT_TRUE(submitted.ok());
  id.set_value(*submitted);
  const Event got = collector.wait(0).last;
  EXPECT_EQ(got.finish, FinishReason::cancelled);
  EXPECT_TRUE(got.embedding.empty());
  expect_idle(*engine);
}

}  // namespace
}  // namespace anabranch::testing
