// The constraints of a request: what its thoughts, its calls and the ends of its answer may be.
#include <gtest/gtest.h>

#include "engine/engine_model.h"
#include "engine/scripted_model.h"
#include "engine/sequence.h"

namespace anabranch::testing {
namespace {

using Tokens = std::vector<int>;

class Constrain : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto script = [](const Tokens&) { return 0; };
    const auto loaded = model_.load({}, scripted_model({script}));
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  }
  Tokens tokens(const std::string& text) const { return model_.tokenizer().encode(text, false); }
  Sequence& begin(const std::function<void(Request&)>& change) {
    Request request = request_of(30, 400);
    request.ignore_eos = false;
    change(request);
    sequence_ = std::make_unique<Sequence>(1, std::move(request), [](const Event&) {});
    model_.constrain(*sequence_);
    return *sequence_;
  }
  // Takes the token, or what is forced in its place, and all that is forced then. Returns what was taken.
  Tokens take(int token) {
    ConstraintList& constraints = sequence_->constraints;
    Tokens taken = {constraints.decide(token)};
    constraints.accept(taken.back());
    while (!constraints.forced().empty()) {
      taken.push_back(constraints.forced().front());
      constraints.accept(taken.back());
    }
    return taken;
  }

  bool may_end() const {
    std::vector<float> logits(kVocab, 0);
    if (sequence_->constraints.masks()) sequence_->constraints.mask(logits);
    return logits[kEos] == 0;
  }

  EngineModel model_;
  std::unique_ptr<Sequence> sequence_;
};

// Unless a bound is of all tokens.
TEST_F(Constrain, TheLeastTokensOfAnAnswerAreWithoutItsThoughts) {
  for (const TokenBound bound : {TokenBound::answer, TokenBound::all}) {
    begin([&](Request& request) {
      request.bound = bound;
      request.output.thinking_open = true;
      request.output.min_tokens = 4;
    });
    for (const int token : {1, 2, 3, 4, 5, 6, kThinkEnd, 7, 8, 9, 10}) {
      if (sequence_->thinking->answer_tokens() > 0) {
        EXPECT_EQ(may_end(), bound == TokenBound::all) << token;
      }
      EXPECT_EQ(take(token), Tokens{token});
    }
    EXPECT_TRUE(may_end());
  }
}

TEST_F(Constrain, AThoughtAndWhatClosesItLeaveTheAnswerItsShare) {
  for (const char* start : {"", "Here is the answer that was asked for, in its first words: "}) {
    begin([&](Request& request) {
      request.bound = TokenBound::shared;
      request.max_tokens = 300;
      request.output.thinking_open = true;
      request.thinking.answer_start = start;
    });
    size_t taken = 0;
    for (int i = 0; sequence_->thinking->thinking() && i < 400; i++) taken += take(i * i % 250).size();
    EXPECT_FALSE(sequence_->thinking->thinking());
    EXPECT_LE(taken, 300u - answer_share(300));
    EXPECT_GT(taken, 150u);
  }
}

// The opener of a call in a thought ends it, unless no call can follow.
TEST_F(Constrain, ACallEndsAThoughtWhereOneMayCome) {
  begin([](Request& request) {
    request.output.thinking_open = true;
    request.thinking.calls = CallPolicy::offered;
  });
  take(1);
  const Tokens closed = take(kToolCall);
  EXPECT_GT(closed.size(), 1u);
  EXPECT_EQ(closed.back(), kToolCall);
  EXPECT_FALSE(sequence_->thinking->thinking());
  begin([](Request& request) {
    request.output.thinking_open = true;
    request.thinking.calls = CallPolicy::text;
  });
  take(1);
  EXPECT_EQ(take(kToolCall), Tokens{kToolCall});
  const auto grammar = model_.grammars().compile("root ::= [a-c]+");
  ASSERT_TRUE(grammar.ok()) << grammar.error().message;
  begin([&](Request& request) {
    request.output.thinking_open = true;
    request.thinking.calls = CallPolicy::offered;
    request.grammar = *grammar;
  });
  take(1);
  EXPECT_EQ(take(kToolCall), Tokens{kToolCall});
  EXPECT_TRUE(sequence_->thinking->thinking());
}

// Whatever the order of their ids.
TEST_F(Constrain, EveryOpenerOfCallsEndsAThought) {
  constexpr int kFunction = kToolCall, kLater = kToolCallEnd;
  const LoadFunction load = scripted_model({[](const Tokens&) { return 0; }});
  EngineModel model;
  const auto loaded = model.load({}, [&](std::shared_ptr<Device> device) -> Result<LoadedModel> {
    TRY(LoadedModel made, load(std::move(device)));
    Json tokenizer = parse_json(scripted_tokenizer()).value();
    for (Json& token : tokenizer["added_tokens"]) {
      if (token["id"] == kFunction) token["content"] = "<function=";
      if (token["id"] == kLater) token["content"] = "<tool_call>";
    }
    const TempDir folder;
    folder.write("tokenizer.json", tokenizer.dump());
    TRY(made.tokenizer, Tokenizer::from_file(folder.file("tokenizer.json")));
    return made;
  });
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  for (const int opener : {kFunction, kLater}) {
    Request request = request_of(30, 400);
    request.ignore_eos = false;
    request.output.thinking_open = true;
    request.thinking.calls = CallPolicy::offered;
    Sequence sequence(1, std::move(request), [](const Event&) {});
    model.constrain(sequence);
    sequence.constraints.accept(sequence.constraints.decide(1));
    EXPECT_NE(sequence.constraints.decide(opener), opener) << "first the thought is closed";
  }
}

TEST_F(Constrain, AFenceInAThoughtBeginsTheAnswerInALineOfItsOwn) {
  begin([](Request& request) {
    request.output.thinking_open = true;
    request.thinking.answer_fence = "```json";
  });
  take(1);
  Tokens last;
  for (const int token : tokens("```json")) last = take(token);
  EXPECT_FALSE(sequence_->thinking->thinking());
  EXPECT_TRUE(model_.tokenizer().decode(last, false).ends_with("```json\n"))
      << model_.tokenizer().decode(last, false);
}

// The client's own text opens a call and begins its name.
TEST_F(Constrain, ACallThatHasBegunNamesATool) {
  Tokens begun = tokens("\n{\"name\": \"ge");
  begun.insert(begun.begin(), kToolCall);
  begin([&](Request& request) {
    request.prompt.insert(request.prompt.end(), begun.begin(), begun.end());
    request.begun = static_cast<int>(begun.size());
    request.output.format.tools = ToolFormat::tagged;
    request.output.goes_on = true;
    request.output.tools = std::make_shared<const Json>(
        parse_json(R"([{"type": "function", "function": {"name": "get", "parameters": {"type": "object"}}}])")
            .value());
    request.thinking.calls = CallPolicy::offered;
  });
  EXPECT_TRUE(sequence_->constraints.masks());
  EXPECT_TRUE(sequence_->constraints.allows(tokens("t")[0]));
  EXPECT_FALSE(sequence_->constraints.allows(tokens("x")[0]));
}

}  // namespace
}  // namespace anabranch::testing
