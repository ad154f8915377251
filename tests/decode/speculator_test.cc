// One sequence's speculation beside others: a drafter that fails costs its own sequence only.
#include "decode/speculator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "ops/testing.h"

namespace anabranch {
namespace {

using ops::Random;

// Three sequences draft together from the MTP head; the hidden states of one are not numbers.
class FailingDrafter : public ::testing::TestWithParam<float> {};

TEST_P(FailingDrafter, CostsItsOwnSequenceOnly) {
  auto checkpoint =
      Checkpoint::open(ANABRANCH_SOURCE_DIR "/tests/models/data/qwen35_nested_untied_grouped/model").value();
  const auto model = Model::load(*checkpoint, ops::cpu_device(), {}).value();
  SpecResources resources;
  resources.model = model.get();
  const SpecMode mode{.automatic = false, .source = DraftSource::mtp, .depth = 3};
  SamplingParams sampling;
  sampling.temperature = GetParam();

  constexpr size_t kSequences = 3, kBad = 1;
  struct One {
    std::vector<int> tokens;
    SequenceState state;
    TokenHistory history;
    Speculator speculator;
  };
  std::vector<One> sequences;
  sequences.reserve(kSequences);
  Random random(21);
  for (size_t i = 0; i < kSequences; i++) {
    One& one = sequences.emplace_back(One{{}, model->make_state(), {}, Speculator(resources, mode)});
    for (int t = 0; t < 21; t++) one.tokens.push_back(random.below(263));
    one.history = TokenHistory(sampling, one.tokens);
    Batch batch;
    batch.add(one.state, std::span(one.tokens).first(20), Batch::Logits::none);
    Tensor hidden = model->forward(batch).hidden;
    if (i == kBad) std::fill_n(hidden.data<float>(), hidden.size(), std::numeric_limits<float>::quiet_NaN());
    one.speculator.applied({hidden, 0, 20}, one.tokens, true);
  }
  const auto draft = [&](std::vector<size_t> which) {
    std::vector<DraftJob> jobs;
    for (const size_t i : which) {
      One& one = sequences[i];
      jobs.push_back({&one.speculator, {one.tokens, sampling, one.history, 3, one.state}});
    }
    Speculator::draft_together(resources, jobs, static_cast<int>(kSequences), true);
    std::vector<std::vector<int>> drafts;
    for (const DraftJob& job : jobs) drafts.push_back(job.draft.tokens);
    return drafts;
  };
  const auto drafts = draft({0, 1, 2});
  EXPECT_EQ(drafts[0].size(), 3u);
  EXPECT_TRUE(drafts[kBad].empty());
  EXPECT_EQ(drafts[2].size(), 3u);
  for (const One& one : sequences)
    for (const auto& count : one.history.counts()) EXPECT_TRUE(count.frequent == 0 && count.present == 0);
  // The failed drafter is not asked again; the others draft on.
  for (size_t i = 0; i < kSequences; i++) {
    One& one = sequences[i];
    one.speculator.observe({DraftSource::mtp, drafts[i]}, 0, 0, false, true);
    Batch batch;
    batch.add(one.state, std::span(one.tokens).last(1), Batch::Logits::none);
    const Tensor hidden = model->forward(batch).hidden;
    one.tokens.push_back(random.below(263));
    one.speculator.applied({hidden, 0, 1}, one.tokens, true);
  }
  const auto later = draft({0, 1, 2});
  EXPECT_EQ(later[0].size(), 3u);
  EXPECT_TRUE(later[kBad].empty());
  EXPECT_EQ(later[2].size(), 3u);
}

// Copied text ends before an image's token, which lies above the vocabulary, as do those that a larger draft
// model has more.
TEST(Speculator, DraftsEndBeforeATokenThatTheModelDoesNotHave) {
  auto checkpoint =
      Checkpoint::open(ANABRANCH_SOURCE_DIR "/tests/models/data/qwen35_flat_tied/model").value();
  const auto model = Model::load(*checkpoint, ops::cpu_device(), {}).value();
  SpecResources resources;
  resources.model = model.get();
  const int vocab = model->spec().vocab;
  for (const int unknown : {vocab - 1, vocab, vocab + 40}) {
    Speculator speculator(resources, {.automatic = false, .source = DraftSource::ngram, .depth = 3});
    const std::vector<int> tokens = {1, 2, 3, 4, 5, 20, unknown, 7, 1, 2, 3, 4, 5};
    SequenceState state = model->make_state();
    TokenHistory history;
    std::vector<DraftJob> jobs = {{&speculator, {tokens, {}, history, 3, state}}};
    Speculator::draft_together(resources, jobs, 1, true);
    EXPECT_EQ(jobs[0].draft.tokens,
              unknown < vocab ? (std::vector<int>{20, unknown, 7}) : std::vector<int>{20});
  }
}

INSTANTIATE_TEST_SUITE_P(GreedyAndSampled, FailingDrafter, ::testing::Values(0.0f, 0.8f));

}  // namespace
}  // namespace anabranch
