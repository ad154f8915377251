// Features that meet at a bad moment: each kind of request while it is preempted, cancelled or failed, or
// while that happens beside it. Tokens are those of the request alone, nothing is left behind, and the next
// request is answered.
#include <future>
#include <stdexcept>

#include "engine/adapters.h"
#include "engine/crowd.h"

namespace anabranch::testing {
namespace {

using Tokens = std::vector<int>;

constexpr SpecMode kNone{.automatic = false, .source = DraftSource::none};

constexpr const char* kModel = "qwen35_nested_untied_grouped";

const RandomAdapter& adapter() {
  static const RandomAdapter made(TinyModel(kModel), 5, 8);
  return made;
}

struct Kind {
  const char* name;
  void (*set)(Request&, Engine&);
};

const Kind kKinds[] = {
    {"greedy", [](Request& r, Engine&) { r.sampling.temperature = 0; }},
    {"sampled", [](Request&, Engine&) {}},
    {"not kept", [](Request& r, Engine&) { r.cache = false; }},
    {"drafts of the head",
     [](Request& r, Engine&) {
       r.speculation = SpecMode{.automatic = false, .source = DraftSource::mtp, .depth = 3};
     }},
    {"copied drafts",
     [](Request& r, Engine&) {
       for (size_t i = 20; i < r.prompt.size(); i++) r.prompt[i] = r.prompt[i - 20];
       r.sampling.temperature = 0;
       r.speculation = SpecMode{.automatic = false, .source = DraftSource::ngram, .depth = 4};
     }},
    {"a grammar",
     [](Request& r, Engine& engine) {
       const auto grammar = engine.compile_grammar("root ::= ([a-e]{3} \", \"){40} \"end\"");
       ASSERT_TRUE(grammar.ok()) << grammar.error().message;
       r.grammar = *grammar;
       r.ignore_eos = false;
       r.speculation = SpecMode{.automatic = true};
     }},
    {"a thought",
     [](Request& r, Engine&) {
       r.output.thinking_open = true;
       r.ignore_eos = false;
       r.thinking.budget = 30;
       r.max_tokens = 60;
     }},
    {"an adapter with drafts",
     [](Request& r, Engine& engine) {
       r = with(r, {load(engine, adapter())});
       r.speculation = SpecMode{.automatic = false, .source = DraftSource::mtp, .depth = 3};
     }},
    {"log probabilities", [](Request& r, Engine&) { r.logprobs = 2; }},
    {"penalties", [](Request& r, Engine&) { r.sampling.repetition_penalty = 1.3f; }},
    {"Mirostat with drafts",
     [](Request& r, Engine&) {
       r.sampling.mirostat = 2;
       r.sampling.mirostat_tau = 3;
       r.speculation = SpecMode{.automatic = false, .source = DraftSource::mtp, .depth = 3};
     }},
    {"DRY and filters of the host with drafts",
     [](Request& r, Engine&) {
       r.sampling.dry.multiplier = 0.8f;
       r.sampling.dry.allowed_length = 1;
       r.sampling.top_n_sigma = 2;
       r.sampling.typical_p = 0.9f;
       r.sampling.dynatemp_range = 0.4f;
       r.speculation = SpecMode{.automatic = false, .source = DraftSource::ngram, .depth = 4};
     }},
    {"tokens that must come",
     [](Request& r, Engine&) {
       r.ignore_eos = false;
       r.output.min_tokens = 170;
       r.output.stop_tokens = {101, 102, 103};
     }},
};

Request request_of_kind(const Kind& kind, Engine& engine) {
  Request request = request_of(40, 180, 0.9f, 3);  // ends within its first block of keys and values
  request.prompt[0] = 100 + static_cast<int>(&kind - kKinds);
  request.speculation = kNone;
  kind.set(request, engine);
  return request;
}

class Crossing : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    EngineOptions options;
    options.model_path = model_.path();
    options.device.threads = 1;
    options.cache.enabled = true;
    options.cache.ram_bytes = 1ull << 28;
    options.memory_bytes = tight_memory(options, GetParam(), 1);
    engine_ = engine_with(options, GetParam());
    for (const Kind& kind : kKinds) {
      Request alone = request_of_kind(kind, *engine_);
      alone.cache = false;
      alone.speculation = kNone;
      want_.push_back(run(*engine_, alone));
      EXPECT_GE(want_.back().size(), 60u) << kind.name;
    }
  }

  // Runs each kind while `happens` does its work after so many tokens of it.
  void each_kind(const std::function<void(const Request&)>& happens, const std::function<void()>& after,
                 int tokens = 5) {
    for (const Kind& kind : kKinds) {
      SCOPED_TRACE(kind.name);
      const Request request = request_of_kind(kind, *engine_);
      Collector collector;
      int started = 0, cached = 0;
      const Sink sink = [&, to = collector.sink(0)](const Event& event) {
        started += event.started;
        if (event.started) cached = event.usage.cached_tokens;
        to(event);
      };
      ASSERT_TRUE(engine_
                      ->submit(request, when_delivered(
                                            tokens, [&] { happens(request); }, sink))
                      .ok());
      const auto got = collector.wait(0);
      EXPECT_EQ(got.tokens, want_[static_cast<size_t>(&kind - kKinds)]);
      EXPECT_EQ(got.logprobs.size(), request.logprobs >= 0 ? got.tokens.size() : 0);
      EXPECT_EQ(got.last.error, "");
      EXPECT_EQ(started, 1);
      EXPECT_EQ(got.last.usage.cached_tokens, cached) << "its own tokens do not count";
      after();
      expect_idle(*engine_);
    }
  }

  // Ends each kind after ten tokens, then asks for all of it again.
  void each_kind_again(FinishReason reason, const std::function<void(RequestId)>& ends) {
    for (const Kind& kind : kKinds) {
      SCOPED_TRACE(kind.name);
      const Request request = request_of_kind(kind, *engine_);
      const Tokens& want = want_[static_cast<size_t>(&kind - kKinds)];
      Collector collector;
      std::promise<RequestId> id;
      const auto then = [&, known = id.get_future().share()] { ends(known.get()); };
      const auto submitted = engine_->submit(request, when_delivered(10, then, collector.sink(0)));
      ASSERT_TRUE(submitted.ok());
      id.set_value(*submitted);
      const auto got = collector.wait(0);
      EXPECT_EQ(got.last.finish, reason);
      ASSERT_LT(got.tokens.size(), want.size());
      EXPECT_TRUE(std::equal(got.tokens.begin(), got.tokens.end(), want.begin()));
      expect_idle(*engine_);
      EXPECT_EQ(run(*engine_, request), want) << "again";
      expect_idle(*engine_);
    }
  }

  Request neighbour_of(Request request) const {
    request.prompt[0] = 90;
    return request;
  }

  TinyModel model_{kModel};
  std::unique_ptr<Engine> engine_;
  std::vector<Tokens> want_;
};

TEST_P(Crossing, PreemptedInTheMiddleOfTheAnswer) {
  Crowd crowd(*engine_);
  uint64_t preempted = engine_->stats().preempted;
  EXPECT_EQ(preempted, 0u);
  // Behind 30 tokens the thought's budget has ended it, whatever a step that runs ahead computed.
  for (const int tokens : {5, 35})
    each_kind([&](const Request&) { crowd.come(); },
              [&] {
                crowd.expect_answers();
                EXPECT_GT(engine_->stats().preempted, std::exchange(preempted, engine_->stats().preempted));
              },
              tokens);
}

TEST_P(Crossing, ANeighbourIsCancelled) {
  Collector neighbours;
  RequestId id = 0;
  const auto come = [&](const Request& request) {
    const auto cancel = [&] { engine_->cancel(id); };
    const auto submitted = engine_->submit(
        neighbour_of(request), when_delivered(3, cancel, neighbours.sink(engine_->stats().requests)));
    ASSERT_TRUE(submitted.ok());
    id = *submitted;
  };
  each_kind(come, [&] {
    EXPECT_EQ(neighbours.wait(static_cast<int>(engine_->stats().requests) - 1).last.finish,
              FinishReason::cancelled);
  });
}

TEST_P(Crossing, ANeighboursClientThrows) {
  Collector neighbours;
  const auto come = [&](const Request& request) {
    const auto fail = [] { throw std::runtime_error("the client is gone"); };
    ASSERT_TRUE(engine_
                    ->submit(neighbour_of(request),
                             when_delivered(3, fail, neighbours.sink(engine_->stats().requests)))
                    .ok());
  };
  each_kind(come, [&] {
    EXPECT_EQ(neighbours.wait(static_cast<int>(engine_->stats().requests) - 1).last.finish,
              FinishReason::error);
  });
}

// In the middle of its answer: a grammar that leads nowhere.
TEST_P(Crossing, ANeighbourFails) {
  const auto nowhere = engine_->compile_grammar("root ::= [a-e]{6} Token(256) \"b\"");
  ASSERT_TRUE(nowhere.ok()) << nowhere.error().message;
  Collector neighbours;
  const auto come = [&](const Request& request) {
    Request failing = neighbour_of(request);
    failing.grammar = *nowhere;
    failing.ignore_eos = failing.output.thinking_open = false;
    ASSERT_TRUE(engine_->submit(failing, neighbours.sink(engine_->stats().requests)).ok());
  };
  each_kind(come, [&] {
    const auto got = neighbours.wait(static_cast<int>(engine_->stats().requests) - 1);
    EXPECT_EQ(got.last.finish, FinishReason::error);
    EXPECT_FALSE(got.tokens.empty());
    EXPECT_EQ(got.logprobs.size(), got.logprobs.empty() ? 0 : got.tokens.size());
  });
}

TEST_P(Crossing, CancelledAndAskedAgain) {
  each_kind_again(FinishReason::cancelled, [&](RequestId id) { engine_->cancel(id); });
}

TEST_P(Crossing, TheClientThrowsAndAsksAgain) {
  each_kind_again(FinishReason::error, [](RequestId) { throw std::runtime_error("the client is gone"); });
}

INSTANTIATE_TEST_SUITE_P(Overlap, Crossing, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "On" : "Off"; });

}  // namespace
}  // namespace anabranch::testing
