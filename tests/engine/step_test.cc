// A step of several sequences, one of which fails: only that part fails, and the step goes on for the others.
#include "engine/step.h"

#include <stdexcept>

#include "engine/scripted_model.h"

namespace anabranch::testing {
namespace {

// Throws where it is told to, as the grammar of a request does that takes too long.
class Failing final : public Constraint {
 public:
  enum class Call { nothing, fitting, mask, accept };
  explicit Failing(Call call) : call_(call) {}

  bool masks() const override { return true; }
  void mask(std::span<float>) override { fail_at(Call::mask); }
  size_t fitting(std::span<const int> draft) override {
    fail_at(Call::fitting);
    return draft.size();
  }
  Ending accept(int, Ending before) override {
    fail_at(Call::accept);
    return before;
  }

 private:
  void fail_at(Call call) const {
    if (call == call_) throw std::runtime_error("the grammar takes too long to follow");
  }
  Call call_;
};

// Counts up to 9 and starts again.
int next_digit(const std::vector<int>& tokens) {
  return (tokens.back() + 1) % 10;
}

class FailingPart : public ::testing::TestWithParam<Failing::Call> {
 protected:
  void SetUp() override {
    const auto loaded = model_.load({}, scripted_model({next_digit}));
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  }

  // A sequence that decodes: its state has seen all tokens but the last.
  std::unique_ptr<Sequence> decoding(RequestId id, Failing::Call failing) {
    Request request;
    for (int i = 0; i < 31; i++) request.prompt.push_back(i % 10);
    request.max_tokens = 100;
    request.output.thinking_open = false;
    auto sequence = std::make_unique<Sequence>(id, std::move(request), [](const Event&) {});
    sequence->state.emplace(model_.model().make_state());
    sequence->speculator.emplace(model_.speculation(),
                                 SpecMode{.automatic = false, .source = DraftSource::ngram, .depth = 4});
    model_.constrain(*sequence);
    sequence->constraints.add(std::make_unique<Failing>(failing));
    sequence->history = TokenHistory(sequence->request.sampling, sequence->tokens);
    sequence->usage.completion_tokens = 1;
    Batch batch;
    batch.add(*sequence->state, std::span<const int>(sequence->tokens).first(30), Batch::Logits::none);
    model_.model().forward(batch);
    return sequence;
  }

  EngineModel model_;
};

TEST_P(FailingPart, OthersOfTheStepGoOn) {
  StepRunner runner(model_, false);
  std::vector<std::unique_ptr<Sequence>> sequences;
  for (RequestId id = 1; id <= 3; id++)
    sequences.push_back(decoding(id, id == 2 ? GetParam() : Failing::Call::nothing));
  Step step;
  step.plan.decoding = 3;
  for (const auto& sequence : sequences) {
    step.plan.scheduled.push_back({sequence->id, 1, true});
    step.parts.push_back(StepRunner::part_of(step.plan.scheduled.back(), *sequence));
  }
  runner.submit(step);
  runner.collect(step);
  for (const StepPart& part : step.parts) {
    if (part.sequence->id == 2) {
      EXPECT_TRUE(part.failure);
      continue;
    }
    EXPECT_FALSE(part.failure);
    EXPECT_EQ(part.draft.tokens, (std::vector<int>{1, 2, 3, 4}));
    EXPECT_EQ(part.sampled, (std::vector<int>{1, 2, 3, 4, 5}));
    EXPECT_EQ(part.sequence->state->length(), 35) << "the accepted draft is committed";
  }
}

INSTANTIATE_TEST_SUITE_P(Calls, FailingPart,
                         ::testing::Values(Failing::Call::fitting, Failing::Call::mask,
                                           Failing::Call::accept));

}  // namespace
}  // namespace anabranch::testing
