// Penalties, bias and log probabilities over the default model: what they are, and that speculation changes
// not a bit of them.
#include <gtest/gtest.h>

#include <cmath>
#include <future>
#include <map>

#include "engine/engine.h"

namespace anabranch {
namespace {

struct Output {
  std::vector<int> tokens;
  std::vector<TokenLogprobs> logprobs;
  Usage usage;
};

class SamplingTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    EngineOptions options;
    options.model_path = ANABRANCH_SOURCE_DIR "/models/hybrid-146m";
    auto engine = Engine::create(options);
    ASSERT_TRUE(engine.ok()) << engine.error().message;
    engine_ = std::move(*engine);
  }
  static void TearDownTestSuite() { engine_.reset(); }

  // Text to copy from: every drafter finds something to be right about.
  static Request request(int max_tokens) {
    const std::string text =
        "Monday: bread, milk, eggs. Tuesday: bread, milk, cheese. Wednesday: bread, milk, apples.\n"
        "The same list once more:\nMonday: bread, milk, eggs. Tuesday:";
    Request r;
    r.prompt = engine_->tokenizer().encode(text, false);
    r.max_tokens = max_tokens;
    r.ignore_eos = true;
    r.logprobs = 3;
    return r;
  }

  static Output run(Request request, DraftSource source = DraftSource::none, bool automatic = false) {
    request.speculation = SpecMode{automatic, source, 0};
    Output out;
    std::promise<void> done;
    const auto id = engine_->submit(std::move(request), [&](const Event& event) {
      out.tokens.insert(out.tokens.end(), event.tokens.begin(), event.tokens.end());
      out.logprobs.insert(out.logprobs.end(), event.logprobs.begin(), event.logprobs.end());
      EXPECT_TRUE(event.logprobs.empty() || event.logprobs.size() == event.tokens.size());
      if (event.finish == FinishReason::none) return;
      out.usage = event.usage;
      done.set_value();
    });
    EXPECT_TRUE(id.ok()) << id.error().message;
    if (id.ok()) done.get_future().wait();
    return out;
  }

  static inline std::unique_ptr<Engine> engine_;
};

void expect_same(const Output& a, const Output& b, const std::string& what) {
  EXPECT_EQ(a.tokens, b.tokens) << what;
  ASSERT_EQ(a.logprobs.size(), b.logprobs.size()) << what;
  for (size_t i = 0; i < a.logprobs.size(); i++) {
    EXPECT_EQ(a.logprobs[i].logprob, b.logprobs[i].logprob) << what << ", token " << i;
    ASSERT_EQ(a.logprobs[i].top.size(), b.logprobs[i].top.size()) << what;
    for (size_t k = 0; k < a.logprobs[i].top.size(); k++) {
      EXPECT_EQ(a.logprobs[i].top[k].token, b.logprobs[i].top[k].token) << what << ", token " << i;
      EXPECT_EQ(a.logprobs[i].top[k].logprob, b.logprobs[i].top[k].logprob) << what << ", token " << i;
    }
  }
}

TEST_F(SamplingTest, SpeculationChangesNothing) {
  std::vector<std::pair<const char*, SamplingParams>> cases(8);
  cases[0].first = "greedy";
  cases[1].first = "greedy, repetition penalty";
  cases[1].second.repetition_penalty = 1.15f;
  cases[2].first = "greedy, repetition penalty in a window, frequency penalty";
  cases[2].second.repetition_penalty = 1.1f;
  cases[2].second.repetition_window = 12;
  cases[2].second.frequency_penalty = 0.05f;
  cases[3].first = "seeded, every penalty, bias";
  cases[3].second.temperature = 0.7f;
  cases[3].second.top_k = 40;
  cases[3].second.seed = 21;
  cases[3].second.repetition_penalty = 1.05f;
  cases[3].second.presence_penalty = 0.3f;
  cases[3].second.frequency_penalty = 0.1f;
  cases[3].second.logit_bias = {{engine_->tokenizer().encode(",", false).front(), 1.5f}};
  cases[4].first = "greedy, DRY";
  cases[4].second.dry.multiplier = 0.8f;
  cases[5].first = "Mirostat 1";
  cases[5].second.temperature = 0.7f;
  cases[5].second.mirostat = 1;
  cases[5].second.mirostat_tau = 1;
  cases[6].first = "Mirostat 2 and DRY";
  cases[6].second = cases[5].second;
  cases[6].second.mirostat = 2;
  cases[6].second.dry.multiplier = 0.3f;
  cases[7].first = "typical, sigma, dynamic temperature, XTC";
  cases[7].second.temperature = 0.5f;
  cases[7].second.typical_p = 0.9f;
  cases[7].second.top_n_sigma = 2;
  cases[7].second.dynatemp_range = 0.4f;
  cases[7].second.xtc_probability = 0.2f;
  cases[7].second.xtc_threshold = 0.1f;
  std::map<DraftSource, long> accepted;
  for (const auto& one : cases) {
    Request r = request(40);
    r.sampling = one.second;
    const Output plain = run(r);
    EXPECT_EQ(plain.tokens.size(), 40u);
    EXPECT_EQ(plain.logprobs.size(), 40u);
    for (const auto source : {DraftSource::ngram, DraftSource::mtp}) {
      const Output drafted = run(r, source);
      expect_same(plain, drafted, std::string(one.first) + ", " + name_of(source));
      accepted[source] += drafted.usage.speculation.of(source).accepted;
    }
    expect_same(plain, run(r, DraftSource::none, true), std::string(one.first) + ", auto");
  }
  EXPECT_GT(accepted[DraftSource::ngram], 5);
  EXPECT_GT(accepted[DraftSource::mtp], 5);
}

// Presence and frequency penalties are the same for log probabilities as for logits, so that the raw ones
// tell what had to be chosen.
TEST_F(SamplingTest, PenaltiesCountTheGeneratedTokensBefore) {
  Request r = request(40);
  r.logprobs = 20;
  r.sampling.frequency_penalty = 0.4f;
  r.sampling.presence_penalty = 0.3f;
  const Output out = run(r, DraftSource::mtp);
  std::map<int, int> count;
  int judged = 0, changed = 0;
  for (size_t i = 0; i < out.tokens.size(); i++) {
    const auto& top = out.logprobs[i].top;
    ASSERT_EQ(top.size(), 20u);
    const auto penalised = [&](const TokenProbability& t) {
      const int n = count.count(t.token) ? count[t.token] : 0;
      return t.logprob - 0.4 * n - (n > 0 ? 0.3 : 0);
    };
    const auto best = *std::max_element(
        top.begin(), top.end(), [&](const auto& a, const auto& b) { return penalised(a) < penalised(b); });
    if (penalised(best) > top.back().logprob) {
      EXPECT_EQ(out.tokens[i], best.token) << "token " << i;
      judged++;
      changed += best.token != top[0].token;
    }
    count[out.tokens[i]]++;
  }
  EXPECT_GT(judged, 30);
  EXPECT_GT(changed, 0);
}

TEST_F(SamplingTest, LogprobsAreTheModelsOwn) {
  Request r = request(12);
  r.logprobs = 20;
  const Output greedy = run(r);
  r.sampling.logit_bias = {{greedy.tokens[0], -100.0f}};
  r.sampling.temperature = 2;
  const Output biased = run(r);
  EXPECT_NE(biased.tokens[0], greedy.tokens[0]);
  for (const int token : biased.tokens) EXPECT_NE(token, greedy.tokens[0]);
  for (const Output* out : {&greedy, &biased})
    for (size_t i = 0; i < out->tokens.size(); i++) {
      const auto& one = out->logprobs[i];
      double sum = 0;
      bool among = false;
      for (size_t k = 0; k < one.top.size(); k++) {
        sum += std::exp(one.top[k].logprob);
        if (k > 0) {
          EXPECT_LE(one.top[k].logprob, one.top[k - 1].logprob);
        }
        if (one.top[k].token != out->tokens[i]) continue;
        among = true;
        EXPECT_EQ(one.top[k].logprob, one.logprob);
      }
      EXPECT_LT(sum + (among ? 0 : std::exp(one.logprob)), 1 + 1e-5);
      if (out == &greedy) {
        EXPECT_EQ(one.top[0].token, out->tokens[i]);
      }
    }
  // The first row is the same: neither bias nor temperature show in it.
  EXPECT_EQ(biased.logprobs[0].top[0].token, greedy.tokens[0]);
  EXPECT_EQ(biased.logprobs[0].top[0].logprob, greedy.logprobs[0].logprob);
}

TEST_F(SamplingTest, ABiasForces) {
  Request r = request(5);
  r.logprobs = -1;
  r.sampling.logit_bias = {{77, 100.0f}};
  const Output out = run(r);
  EXPECT_EQ(out.tokens, std::vector<int>(5, 77));
  EXPECT_TRUE(out.logprobs.empty());
}

// The model ends its answer early on; with min_tokens it does not, with and without drafts.
TEST_F(SamplingTest, AnAnswerHasItsLeastTokens) {
  Request r = request(60);
  r.prompt =
      engine_->tokenizer().encode("<|im_start|>user\nSay yes.<|im_end|>\n<|im_start|>assistant\n", true);
  r.ignore_eos = false;
  r.thinking.loops = LoopRule::none;
  const Output brief = run(r);
  ASSERT_LT(brief.tokens.size(), 30u);
  r.output.min_tokens = 40;
  const Output plain = run(r);
  EXPECT_GE(plain.tokens.size(), 40u);
  EXPECT_TRUE(std::equal(brief.tokens.begin(), brief.tokens.end() - 1, plain.tokens.begin()));
  for (const auto source : {DraftSource::ngram, DraftSource::mtp})
    expect_same(plain, run(r, source), std::string("at least 40, ") + name_of(source));
  // A stop token is not sampled before, and ends the answer after it.
  r.output.min_tokens = 0;
  r.output.stop_tokens = {brief.tokens[1]};
  EXPECT_EQ(run(r).tokens.size(), 2u);
  r.output.min_tokens = 10;
  const Output later = run(r);
  for (size_t i = 0; i < std::min<size_t>(10, later.tokens.size()); i++)
    EXPECT_NE(later.tokens[i], brief.tokens[1]);
  EXPECT_GE(later.tokens.size(), 11u);
}

TEST_F(SamplingTest, BadParametersAreRefused) {
  const auto refused = [&](const std::function<void(Request&)>& change) {
    Request r = request(1);
    change(r);
    const auto id = engine_->submit(std::move(r), [](const Event&) {});
    return id.ok() ? std::string("accepted") : id.error().message;
  };
  EXPECT_NE(refused([](Request& r) {
              r.sampling.logit_bias = {{1 << 30, 1.0f}};
            }).find("vocabulary"),
            std::string::npos);
  EXPECT_NE(refused([](Request& r) {
              r.sampling.logit_bias = {{-1, 1.0f}};
            }).find("vocabulary"),
            std::string::npos);
  const int vocab = engine_->tokenizer().vocab_size();
  for (const int id : {vocab - 1, vocab})
    EXPECT_EQ(refused([&](Request& r) {
                r.sampling.logit_bias = {{id, 1.0f}};
              }) == "accepted",
              id < vocab)
        << id;
  EXPECT_NE(refused([](Request& r) { r.sampling.repetition_window = -1; }).find("over -1 tokens"),
            std::string::npos);
  EXPECT_NE(refused([](Request& r) { r.sampling.mirostat = -1; }).find("Mirostat -1"), std::string::npos);
  EXPECT_NE(refused([](Request& r) { r.begun = -1; }).find("begin"), std::string::npos);
  EXPECT_NE(refused([](Request& r) { r.begun = static_cast<int>(r.prompt.size()) + 1; }).find("begin"),
            std::string::npos);
  EXPECT_EQ(refused([](Request& r) { r.begun = static_cast<int>(r.prompt.size()); }), "accepted");
  EXPECT_NE(refused([](Request& r) { r.sampling.repetition_penalty = 0; }).find("repetition"),
            std::string::npos);
  EXPECT_NE(refused([](Request& r) { r.sampling.mirostat = 3; }).find("Mirostat 3"), std::string::npos);
  EXPECT_NE(refused([](Request& r) { r.sampling.dry.base = 0.5f; }).find("base 0.5"), std::string::npos);
  EXPECT_NE(refused([](Request& r) { r.sampling.typical_p = NAN; }).find("nan"), std::string::npos);
  EXPECT_NE(refused([](Request& r) { r.sampling.dynatemp_range = -1; }).find("-1"), std::string::npos);
  EXPECT_NE(refused([](Request& r) { r.logprobs = 21; }).find("at most 20"), std::string::npos);
}

}  // namespace
}  // namespace anabranch
