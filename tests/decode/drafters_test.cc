// Drafters against what they stand for: whatever rounds came before, a proposal is what a fresh computation
// over the whole sequence would propose, and the model's own state is left alone.
#include "decode/drafters.h"

#include <gtest/gtest.h>

#include <array>

#include "decode/sampler.h"
#include "ops/testing.h"
#include "state/state_bits.h"

namespace anabranch {
namespace {

using ops::Random;
using testing::same_state;

std::unique_ptr<Model> load(const std::string& name, const ModelLoadOptions& options = {}) {
  auto checkpoint = Checkpoint::open(ANABRANCH_SOURCE_DIR "/tests/models/data/" + name + "/model");
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  auto model = Model::load(**checkpoint, ops::cpu_device(), options);
  EXPECT_TRUE(model.ok()) << model.error().message;
  return std::move(*model);
}

std::vector<int> random_tokens(Random& random, int n) {
  std::vector<int> out;
  for (int i = 0; i < n; i++) out.push_back(random.below(263));
  return out;
}

Tensor forward(const Model& model, SequenceState& state, std::span<const int> tokens) {
  Batch batch;
  batch.add(state, tokens, Batch::Logits::none);
  return model.forward(batch).hidden;
}

int drawn(const Model& model, const Tensor& hidden, const SamplingParams& sampling,
          const TokenHistory& history, size_t position) {
  const auto last = hidden.slice_rows(hidden.shape(0) - 1, hidden.shape(0));
  return sample(ops::to_vector(model.draft_logits(last)), sampling, history, position, model.draft_vocab());
}

std::vector<int> propose(Drafter& drafter, const DraftRequest& request) {
  DraftWork work{&drafter, request};
  propose_together({&work, 1});
  return work.tokens;
}

const SamplingParams kSamplings[] = {
    {.temperature = 0},
    {.temperature = 0.8f, .top_p = 0.9f, .seed = 4},
    {.temperature = 0.5f, .seed = 5, .repetition_penalty = 1.5f, .frequency_penalty = 0.5f}};

// From scratch: all pairs of the sequence, then a chain.
std::vector<int> mtp_drafts(const Model& model, const Tensor& hidden, std::span<const int> tokens,
                            const SamplingParams& sampling, int count) {
  SequenceState state(model.device(), model.mtp_layout());
  const auto pair = [&](const Tensor& rows, std::span<const int> next) {
    Batch batch;
    batch.add(state, next, Batch::Logits::none);
    return model.mtp(rows, batch);
  };
  const int pairs = static_cast<int>(tokens.size()) - 1;
  auto out = pair(hidden.slice_rows(0, pairs), tokens.subspan(1));
  TokenHistory history(sampling, tokens);
  std::vector<int> drafts;
  for (;;) {
    drafts.push_back(drawn(model, out, sampling, history, tokens.size() + drafts.size()));
    if (static_cast<int>(drafts.size()) == count) return drafts;
    history.push(drafts.back());
    out = pair(out.slice_rows(out.shape(0) - 1, out.shape(0)), {&drafts.back(), 1});
  }
}

TEST(MtpDrafter, ProposesWhatItsWholePastSays) {
  ModelLoadOptions some;
  some.draft_vocab = [] {
    std::vector<int> ids;
    for (int id = 0; id < 263; id += 3) ids.push_back(id);
    return ids;
  };
  for (const auto& options : {ModelLoadOptions{}, some}) {
    const auto model = load("qwen35_nested_untied_grouped", options);
    Random random(8);
    const auto tokens = random_tokens(random, 800);
    const std::span<const int> known(tokens);
    auto trunk = model->make_state(), unused = model->make_state();
    const auto hidden = forward(*model, trunk, tokens);
    for (const auto& sampling : kSamplings) {
      const auto drafter = make_mtp_drafter(*model);
      int at = 0;
      const auto apply = [&](int rows, int next) {
        drafter->applied({hidden, at, rows}, known.first(at + rows + next), false);
        at += rows;
      };
      apply(100, 177);  // prefill of 277 tokens in two chunks, the token after it not known yet
      apply(177, 0);
      for (int round = 0; at < 780; round++) {
        // Stretches of plain decoding, longer than what may wait; then rounds of speculation.
        const int count = at < 320 || at > 650 ? 1 + random.below(6) : 0;
        if (count > 0) {
          TokenHistory history(sampling, known.first(at + 1));
          const auto got = propose(*drafter, {known.first(at + 1), sampling, history, count, unused});
          ASSERT_EQ(static_cast<int>(got.size()), count) << "round " << round << " at " << at;
          if (round % 3 == 0) {
            ASSERT_EQ(got, mtp_drafts(*model, hidden, known.first(at + 1), sampling, count))
                << "round " << round << " at " << at;
          }
          drafter->observe(random.below(count + 1));
        }
        apply(count == 0 ? 1 : 1 + random.below(count + 1), 1);
      }
    }
    EXPECT_EQ(unused.length(), 0);
  }
}

// The waiting pairs are full exactly when a draft is asked for.
TEST(MtpDrafter, DraftsAtEveryLength) {
  const auto model = load("qwen35_nested_untied_grouped");
  Random random(9);
  const auto tokens = random_tokens(random, 300);
  const std::span<const int> known(tokens);
  auto trunk = model->make_state();
  const auto hidden = forward(*model, trunk, tokens);
  for (const int length : {1, 2, 255, 256, 257, 258}) {
    const auto drafter = make_mtp_drafter(*model);
    for (int at = 0; at < length; at++) drafter->applied({hidden, at, 1}, known.first(at + 2), false);
    TokenHistory history;
    EXPECT_EQ(propose(*drafter, {known.first(length + 1), kSamplings[0], history, 3, trunk}),
              mtp_drafts(*model, hidden, known.first(length + 1), kSamplings[0], 3))
        << length << " plain rounds";
  }
}

// Rows that wait for a draft do not keep the tensors of many large steps alive.
TEST(MtpDrafter, AFewWaitingRowsDoNotKeepTheirStepsAlive) {
  const auto model = load("qwen35_nested_untied_grouped");
  Random random(14);
  const auto tokens = random_tokens(random, 41);
  const std::span<const int> known(tokens);
  auto trunk = model->make_state();
  const auto hidden = forward(*model, trunk, known.first(40));
  // The hidden states of each step of 100 sequences: the row of ours is row 7.
  std::vector<Tensor> steps;
  const auto drafter = make_mtp_drafter(*model);
  for (int at = 0; at < 40; at++) {
    Tensor& step = steps.emplace_back(model->device().zeros({100, hidden.shape(1)}, Dtype::f32));
    const float* row = hidden.data<float>() + at * hidden.shape(1);
    std::copy(row, row + hidden.shape(1), step.data<float>() + 7 * hidden.shape(1));
    drafter->applied({step, 7, 1}, known.first(static_cast<size_t>(at) + 2), false);
  }
  const auto kept =
      std::count_if(steps.begin(), steps.end(), [](const Tensor& step) { return !step.is_unshared(); });
  EXPECT_LE(kept, 1) << "only the last step may be shared";
  TokenHistory history;
  EXPECT_EQ(propose(*drafter, {tokens, kSamplings[0], history, 3, trunk}),
            mtp_drafts(*model, hidden, tokens, kSamplings[0], 3));
}

// Plain decoding by the model itself.
std::vector<int> continuation(const Model& model, std::span<const int> tokens, const SamplingParams& sampling,
                              int count) {
  auto state = model.make_state();
  auto hidden = forward(model, state, tokens);
  TokenHistory history(sampling, tokens);
  std::vector<int> out;
  for (;;) {
    out.push_back(drawn(model, hidden, sampling, history, tokens.size() + out.size()));
    if (static_cast<int>(out.size()) == count) return out;
    history.push(out.back());
    hidden = forward(model, state, {&out.back(), 1});
  }
}

TEST(ModelDrafter, ProposesWhatItsModelWouldSay) {
  const auto model = load("qwen35_flat_tied");
  Random random(10);
  for (const auto& sampling : kSamplings) {
    auto unused = model->make_state();
    const auto drafter = make_model_drafter(*model);
    auto tokens = random_tokens(random, 240);
    for (int round = 0; round < 40; round++) {
      const int count = 1 + random.below(15);
      TokenHistory history(sampling, tokens);
      const auto got = propose(*drafter, {tokens, sampling, history, count, unused});
      ASSERT_EQ(got, continuation(*model, tokens, sampling, count)) << "round " << round;
      for (const auto& c : history.counts())
        EXPECT_TRUE(c.frequent == 0 && c.present == 0) << "token " << c.token << " stayed";
      const int accepted = round % 5 == 4 ? 0 : random.below(count + 1);
      if (round % 5 != 4) drafter->observe(accepted);  // or it never hears of it
      tokens.insert(tokens.end(), got.begin(), got.begin() + accepted);
      // The model's own token, and at times others while this drafter is not asked.
      for (int i = round % 7 == 3 ? 20 : 1; i > 0; i--) tokens.push_back(random.below(263));
    }
    TokenHistory history(sampling, tokens);
    EXPECT_TRUE(propose(*drafter, {tokens, sampling, history, 0, unused}).empty());
    EXPECT_EQ(unused.length(), 0);
  }
}

TEST(LayersDrafter, LeavesTheStateAsItWas) {
  for (const char* name : {"qwen35_flat_tied", "llama_tied"}) {
    const auto model = load(name);
    Random random(11);
    for (const auto& layers : {std::vector<int>{0, 1, 2, 3}, {0, 1}, {0, 2, 3}, {3}}) {
      const auto drafter = make_layers_drafter(*model, layers);
      const auto tokens = random_tokens(random, 255);
      auto state = model->make_state(), plain = model->make_state();
      forward(*model, plain, std::span(tokens).first(254));
      forward(*model, state, std::span(tokens).first(250));
      state.open();  // the last four came by speculation and are pending
      forward(*model, state, std::span(tokens).subspan(250));
      state.commit(4);
      for (const int count : {1, 4, 15}) {
        TokenHistory history;
        const auto got = propose(*drafter, {tokens, kSamplings[1], history, count, state});
        EXPECT_EQ(static_cast<int>(got.size()), count);
        EXPECT_FALSE(state.has_draft_tokens());
        if (layers.size() == 4) {
          EXPECT_EQ(got, continuation(*model, tokens, kSamplings[1], count));
        }
        SequenceState copy = state;
        EXPECT_TRUE(same_state(copy.snapshot(), plain.snapshot())) << name;
      }
    }
  }
}

// Drafts of several sequences, of different lengths and samplings, made in shared passes: each is what its
// drafter proposes alone.
TEST(Drafters, TogetherTheyProposeWhatEachProposesAlone) {
  const auto model = load("qwen35_nested_untied_grouped");
  Random random(12);
  struct DraftCase {
    std::vector<int> tokens;
    SequenceState state;
    std::array<std::unique_ptr<Drafter>, 2> mtp, draft, layers;  // alone, together
  };
  std::vector<DraftCase> cases;
  for (const int length : {5, 40, 300, 41}) {
    DraftCase& one = cases.emplace_back(DraftCase{random_tokens(random, length + 1), model->make_state()});
    const std::span<const int> known(one.tokens);
    const auto hidden = forward(*model, one.state, known.first(static_cast<size_t>(length)));
    for (int i = 0; i < 2; i++) {
      one.mtp[i] = make_mtp_drafter(*model);
      one.mtp[i]->applied({hidden, 0, length}, known, false);
      one.draft[i] = make_model_drafter(*model);
      one.layers[i] = make_layers_drafter(*model, {0, 1, 3});
    }
  }
  const int counts[] = {3, 1, 5, 0};
  for (const auto kind : {&DraftCase::mtp, &DraftCase::draft, &DraftCase::layers}) {
    std::vector<TokenHistory> histories;
    for (size_t i = 0; i < cases.size(); i++) histories.emplace_back(kSamplings[i % 3], cases[i].tokens);
    const auto request = [&](size_t i) {
      return DraftRequest{cases[i].tokens, kSamplings[i % 3], histories[i], counts[i], cases[i].state};
    };
    std::vector<std::vector<int>> alone;
    std::vector<DraftWork> works;
    for (size_t i = 0; i < cases.size(); i++) {
      Drafter& drafter = *(cases[i].*kind)[0];
      if (kind == &DraftCase::mtp) drafter.prepare(cases[i].tokens);
      alone.push_back(propose(drafter, request(i)));
      Drafter& other = *(cases[i].*kind)[1];
      if (kind == &DraftCase::mtp) other.prepare(cases[i].tokens);
      works.push_back({&other, request(i)});
    }
    propose_together(works);
    for (size_t i = 0; i < cases.size(); i++) {
      EXPECT_EQ(works[i].tokens, alone[i]) << i;
      EXPECT_EQ(static_cast<int>(alone[i].size()), counts[i]);
      EXPECT_FALSE(cases[i].state.has_draft_tokens());
      for (const auto& c : histories[i].counts()) EXPECT_TRUE(c.frequent == 0 && c.present == 0);
    }
  }
}

// The rows of a long prompt that still wait are copied: the prompt's tensor is free.
TEST(MtpDrafter, ALongPromptsRowsDoNotStayInMemory) {
  const auto model = load("qwen35_nested_untied_grouped");
  Random random(15);
  const auto tokens = random_tokens(random, 301);
  auto trunk = model->make_state();
  const Tensor hidden = forward(*model, trunk, std::span(tokens).first(300));
  ASSERT_TRUE(hidden.is_unshared());
  const auto drafter = make_mtp_drafter(*model);
  drafter->applied({hidden, 0, 300}, tokens, false);
  drafter->applied({model->device().zeros({1, hidden.shape(1)}, Dtype::f32), 0, 1}, tokens, false);
  EXPECT_TRUE(hidden.is_unshared());
}

// What is kept beside a state is the last position's hidden state alone.
TEST(MtpDrafter, KeepsTheLastRow) {
  const auto model = load("qwen35_nested_untied_grouped");
  Random random(17);
  const auto tokens = random_tokens(random, 21);
  auto trunk = model->make_state();
  const Tensor hidden = forward(*model, trunk, std::span(tokens).first(20));
  const auto drafter = make_mtp_drafter(*model);
  drafter->applied({hidden, 0, 20}, tokens, false);
  const auto saved = drafter->save(std::span(tokens).first(20));
  ASSERT_TRUE(saved);
  EXPECT_EQ(ops::to_vector(saved->hidden), ops::to_vector(hidden.slice_rows(19, 20)));
}

TEST(ModelDrafter, DraftsAsFarAsItsContextReaches) {
  const auto model = load("qwen35_nested_untied_grouped");
  const auto context = static_cast<size_t>(model->spec().context_length);
  const auto drafter = make_model_drafter(*model);
  EXPECT_TRUE(drafter->can_draft(context - kMaxDraft));
  EXPECT_FALSE(drafter->can_draft(context - kMaxDraft + 1));
}

// While its sequence runs alone among few tokens, parking costs nothing.
TEST(Drafters, AParkedOneKeepsAShortSequence) {
  const auto model = load("qwen35_nested_untied_grouped");
  Random random(16);
  const auto tokens = random_tokens(random, 21);
  const std::span<const int> known(tokens);
  auto trunk = model->make_state();
  const auto hidden = forward(*model, trunk, known.first(20));
  for (const bool parked : {false, true}) {
    const auto drafter = make_mtp_drafter(*model);
    for (int at = 0; at < 20; at += 5)
      drafter->applied({hidden, at, 5}, known.first(static_cast<size_t>(at) + 6), parked);
    TokenHistory history;
    EXPECT_EQ(propose(*drafter, {known, kSamplings[0], history, 3, trunk}),
              mtp_drafts(*model, hidden, known, kSamplings[0], 3))
        << parked;
  }
}

// A parked drafter forgets what lies far back, and drafts again from what it kept.
TEST(Drafters, AParkedOneStartsAgainFromItsLastTokens) {
  const auto model = load("qwen35_nested_untied_grouped");
  Random random(13);
  const auto tokens = random_tokens(random, 2001);
  const std::span<const int> known(tokens);
  auto trunk = model->make_state();
  const auto hidden = forward(*model, trunk, known.first(2000));
  const auto mtp = make_mtp_drafter(*model), draft = make_model_drafter(*model);
  for (int at = 0; at < 2000;) {
    const int rows = at < 700 ? 350 : 1;  // a prompt, then plain decoding
    const auto seen = known.first(static_cast<size_t>(at + rows + 1));
    mtp->applied({hidden, at, rows}, seen, true);
    draft->applied({hidden, at, rows}, seen, true);
    at += rows;
    EXPECT_FALSE(mtp->save(known.first(static_cast<size_t>(at)))) << "of a part of the sequence only";
  }
  // The MTP head pairs the last 32 positions.
  SequenceState state(model->device(), model->mtp_layout());
  Batch batch;
  batch.add(state, known.subspan(2000 - 32 + 1), Batch::Logits::none);
  const auto out = model->mtp(hidden.slice_rows(2000 - 32, 2000), batch);
  TokenHistory history(kSamplings[0], tokens);
  const int first = drawn(*model, out, kSamplings[0], history, tokens.size());
  for (Drafter* drafter : {mtp.get(), draft.get()}) {
    drafter->prepare(tokens);
    const auto got = propose(*drafter, {tokens, kSamplings[0], history, 3, trunk});
    ASSERT_EQ(got.size(), 3u);
    if (drafter == mtp.get()) {
      EXPECT_EQ(got[0], first);
    }
  }
}

}  // namespace
}  // namespace anabranch
