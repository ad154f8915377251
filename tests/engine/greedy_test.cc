// Greedy requests take the best token of each row of logits, and the rows stay where the model left them; who
// needs more of them gets it, with the same tokens.
#include "engine/scripted_model.h"

namespace anabranch::testing {
namespace {

constexpr SpecMode kOff{.automatic = false, .source = DraftSource::none};
const SpecMode kModes[] = {kOff,
                           {.automatic = false, .source = DraftSource::ngram, .depth = 4},
                           {.automatic = false, .source = DraftSource::mtp, .depth = 3},
                           {.automatic = true}};

std::unique_ptr<Engine> start(const TinyModel& model) {
  EngineOptions options;
  options.model_path = model.path();
  options.device.threads = 2;
  auto engine = Engine::create(options);
  EXPECT_TRUE(engine.ok()) << engine.error().message;
  return std::move(*engine);
}

Request greedy(int length, int max_tokens) {
  Request r = request_of(length, max_tokens, 0);
  for (int i = length / 2; i < length; i++) r.prompt[i] = r.prompt[i - length / 2];  // drafts are found
  return r;
}

Request with_logits(Request request) {
  request.logprobs = 0;
  return request;
}

TEST(Greedy, TokensAloneBringNoLogits) {
  const TinyModel model("qwen35_nested_untied_grouped");
  const auto engine = start(model);
  Request r = greedy(80, 48);
  const auto want = run_to_end(*engine, with_logits(r)).tokens;
  const uint64_t before = engine->stats().logit_passes;
  EXPECT_EQ(want.size(), 48u);
  EXPECT_GT(before, 0u);
  for (const SpecMode& mode : kModes) {
    r.speculation = mode;
    EXPECT_EQ(run(*engine, r), want) << name_of(mode.source);
  }
  r.sampling.temperature = 0.8f;
  r.sampling.top_k = 1;
  EXPECT_EQ(run(*engine, r), want) << "top_k = 1";
  EXPECT_EQ(engine->stats().logit_passes, before);
}

// All at once, first greedy ones only.
TEST(Greedy, NeighboursMayNeedLogits) {
  const TinyModel model("qwen35_nested_untied_grouped");
  const auto engine = start(model);
  std::vector<Request> requests;
  for (int i = 0; i < 4; i++) {
    requests.push_back(greedy(30 + 20 * i, 30 + 5 * i));
    requests.back().speculation = kModes[i];
  }
  requests.resize(8, greedy(60, 40));
  requests[4].logprobs = 2;
  requests[5].sampling.temperature = 0.8f;
  requests[6].sampling.repetition_penalty = 1.2f;
  requests[7].sampling.logit_bias = {{17, 3.0f}};
  std::vector<std::vector<int>> want;
  for (Request r : requests) {
    r.speculation = kOff;
    want.push_back(run(*engine, with_logits(r)));
  }
  for (const size_t count : {4, 8}) {
    const uint64_t before = engine->stats().logit_passes;
    Collector collector;
    for (size_t i = 0; i < count; i++)
      ASSERT_TRUE(engine->submit(requests[i], collector.sink(static_cast<int>(i))).ok());
    for (size_t i = 0; i < count; i++) EXPECT_EQ(collector.wait(static_cast<int>(i)).tokens, want[i]) << i;
    EXPECT_EQ(engine->stats().logit_passes > before, count == 8);
  }
}

// Calls where there are no tools, another thought when the budget is spent, an end instead of an answer.
TEST(Greedy, RefusedTokensAreReplacedAsEver) {
  const Script calls = [](const std::vector<int>& tokens) {
    const int n = static_cast<int>(tokens.size());
    return n % 9 == 0 ? kToolCall : n == 60 ? kEos : n % 7 + 10;
  };
  const Script thoughts = [](const std::vector<int>& tokens) {
    const size_t close = std::find(tokens.begin(), tokens.end(), kThinkEnd) - tokens.begin();
    if (close == tokens.size()) return static_cast<int>(tokens.size());
    return tokens.size() > close + 12 ? kEos : tokens.size() % 2 == 0 ? kThink : 50;
  };
  const Script ends = [](const std::vector<int>& tokens) {
    return std::find(tokens.begin(), tokens.end(), kThinkEnd) == tokens.end() ? 33 : kEos;
  };
  const auto engine = scripted_engine({calls, thoughts, ends});
  for (int script = 0; script < 3; script++) {
    Request r = request_of(5, 80, 0);
    r.prompt[0] = script;
    r.ignore_eos = false;
    r.output.thinking_open = script > 0;
    r.thinking.budget = 10;
    r.thinking.loops = LoopRule::none;
    r.thinking.calls = CallPolicy::none;
    const auto want = run(*engine, with_logits(r));
    EXPECT_GT(want.size(), 20u);
    for (const SpecMode& mode : {kModes[0], kModes[1], kModes[3]}) {
      r.speculation = mode;
      const uint64_t before = engine->stats().logit_passes;
      EXPECT_EQ(run(*engine, r), want) << script << ", " << name_of(mode.source);
      const uint64_t passes = engine->stats().logit_passes - before;
      EXPECT_GT(passes, 0u) << script;
      EXPECT_LT(passes, want.size() / 2) << script;
    }
  }
}

TEST(Greedy, LogitsThatAreNoNumbersEndTheRequest) {
  const TinyModel model("qwen35_flat_tied");
  model.edit_tensors([](const std::string& name, std::vector<int64_t>&, std::string& bytes) {
    if (name.find("embed_tokens") != std::string::npos) bytes.replace(0, 4, "\xc0\x7f\xc0\x7f");  // NaN
  });
  const auto engine = start(model);
  const auto got = run_to_end(*engine, greedy(10, 5));
  EXPECT_EQ(got.last.finish, FinishReason::error);
  EXPECT_NE(got.last.error.find("not numbers"), std::string::npos) << got.last.error;
}

}  // namespace
}  // namespace anabranch::testing
