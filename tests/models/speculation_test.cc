// Drafts of whole models: rows of a draft have the bits that plain decoding gives them, and after any commit
// a sequence goes on as if it had never tried. Every tiny checkpoint, int8 activations and fp32, on one
// thread and two.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "models/model.h"
#include "ops/testing.h"
#include "state/state_bits.h"

namespace anabranch {
namespace {

namespace fs = std::filesystem;
using ops::Random;
using ops::to_vector;
using testing::bytes_of;
using testing::same_state;
using testing::StateBytes;

// Without GGUF and Mistral's own files, which have the same layers, and without those that are there for
// their towers.
std::vector<std::string> checkpoints() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(ANABRANCH_SOURCE_DIR "/tests/models/data"))
    if (fs::exists(entry.path() / "model/config.json") && fs::exists(entry.path() / "index.json"))
      names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::unique_ptr<Model> load(const std::string& name, Device& device) {
  auto checkpoint = Checkpoint::open(ANABRANCH_SOURCE_DIR "/tests/models/data/" + name + "/model");
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  auto model = Model::load(**checkpoint, device);
  EXPECT_TRUE(model.ok()) << model.error().message;
  return std::move(*model);
}

// Hidden state and logits of a row.
struct Row {
  std::vector<float> hidden, logits;
};

std::vector<Row> rows_of(const Model& model, const Batch& batch) {
  const auto out = model.forward(batch);
  const auto hidden = to_vector(out.hidden), logits = to_vector(out.logits);
  const size_t rows = batch.ids.size(), h = hidden.size() / rows, v = logits.size() / rows;
  EXPECT_EQ(batch.logit_rows.size(), rows);
  std::vector<Row> parts;
  for (size_t i = 0; i < rows; i++)
    parts.push_back({{hidden.begin() + i * h, hidden.begin() + (i + 1) * h},
                     {logits.begin() + i * v, logits.begin() + (i + 1) * v}});
  return parts;
}

std::vector<Row> apply(const Model& model, SequenceState& state, std::span<const int> tokens) {
  Batch batch;
  batch.add(state, tokens, Batch::Logits::all);
  return rows_of(model, batch);
}

// One token after the other.
std::vector<Row> decode(const Model& model, SequenceState& state, std::span<const int> tokens) {
  std::vector<Row> rows;
  for (const int token : tokens) rows.push_back(apply(model, state, {&token, 1})[0]);
  return rows;
}

::testing::AssertionResult same_row(const Row& a, const Row& b) {
  const auto hidden = ops::bits_agree(a.hidden, b.hidden);
  return hidden ? ops::bits_agree(a.logits, b.logits) : hidden;
}

std::vector<int> random_tokens(Random& random, int n, int vocab) {
  std::vector<int> out;
  for (int i = 0; i < n; i++) out.push_back(random.below(vocab));
  return out;
}

class DraftedModel : public ::testing::TestWithParam<std::tuple<std::string, bool>> {
 protected:
  void SetUp() override {
    model_ = load(std::get<0>(GetParam()), ops::cpu_device(0, std::get<1>(GetParam())));
    vocab_ = model_->spec().vocab;
  }
  void TearDown() override { set_thread_count(0); }
  void set_thread_count(int threads) { model_->device().threads().resize(threads); }
  // A sequence of `length` tokens.
  SequenceState started(int length) {
    auto state = model_->make_state();
    apply(*model_, state, random_tokens(random_, length, vocab_));
    return state;
  }
  // Both go on alike.
  void expect_same_future(SequenceState a, SequenceState b, int tokens, const std::string& what) {
    const auto next = random_tokens(random_, tokens, vocab_);
    const auto x = decode(*model_, a, next), y = decode(*model_, b, next);
    for (int i = 0; i < tokens; i++) ASSERT_TRUE(same_row(x[i], y[i])) << what << ", token " << i << " after";
    ASSERT_TRUE(same_state(a.snapshot(), b.snapshot())) << what << ", in the end";
  }

  Random random_{7};
  std::unique_ptr<Model> model_;
  int vocab_ = 0;
};

// The draft crosses into a new block of keys and values.
TEST_P(DraftedModel, EveryDraftAndCommitEqualsPlainDecoding) {
  const SequenceState start = started(ops::kKvBlock - 6);
  const auto tokens = random_tokens(random_, kMaxDraftTokens, vocab_);
  set_thread_count(1);
  SequenceState plain = start;
  std::vector<SequenceState> after = {plain};
  std::vector<Row> want;
  std::vector<StateBytes> want_state = {bytes_of(plain.snapshot())};
  for (const int token : tokens) {
    want.push_back(decode(*model_, plain, {&token, 1})[0]);
    after.push_back(plain);
    want_state.push_back(bytes_of(plain.snapshot()));
  }
  for (const int threads : {1, 2}) {
    set_thread_count(threads);
    for (int n = 1; n <= kMaxDraftTokens; n++) {
      if (threads == 2 && n % 6 != 4) continue;  // 4, 10 and 16
      SequenceState tried = start;
      tried.open();
      const int first = n % 3 == 0 ? n / 3 : 0;  // some in two passes
      auto rows =
          first > 0 ? apply(*model_, tried, {tokens.data(), static_cast<size_t>(first)}) : std::vector<Row>{};
      for (auto& row : apply(*model_, tried, std::span(tokens).subspan(first, n - first)))
        rows.push_back(std::move(row));
      for (int i = 0; i < n; i++)
        ASSERT_TRUE(same_row(rows[i], want[i]))
            << "row " << i << " of " << n << ", " << threads << " threads";
      for (int k = 0; k <= n && (n < 4 || n % 6 == 4); k++) {
        const auto what = fmt::format("{} of {} kept, {} threads", k, n, threads);
        SequenceState kept = tried;
        kept.commit(k);
        ASSERT_EQ(kept.length(), start.length() + k) << what;
        if (threads == 2 && n >= 10 && k % 3 == 1) expect_same_future(kept, after[k], 20, what);
        ASSERT_TRUE(same_state(bytes_of(kept.snapshot()), want_state[k])) << what;
      }
    }
  }
}

// Whatever one sequence goes through in between, in place, with states that others share and that nobody
// does.
TEST_P(DraftedModel, AnyInterleavingLeavesTheSequenceAsItWas) {
  auto plain = started(200);
  auto tried = model_->make_state();
  tried.restore(plain.snapshot());
  std::vector<int> some(model_->spec().layers.size() / 2 + 1);
  std::iota(some.begin(), some.end(), 0);
  std::optional<Snapshot> plain_before, tried_before;
  for (int round = 0; round < 100; round++) {
    set_thread_count(1 + round % 2);
    const auto what = fmt::format("round {} at {}", round, plain.length());
    std::vector<Row> got, want;
    const int kind = random_.below(8), n = 1 + random_.below(kMaxDraftTokens);
    const auto tokens = random_tokens(random_, n, vocab_);
    if (kind == 0) {  // a chunk, in one go
      got = apply(*model_, tried, tokens);
      want = decode(*model_, plain, tokens);
    } else if (kind == 1) {  // single tokens
      got = decode(*model_, tried, tokens);
      want = apply(*model_, plain, tokens);
    } else if (kind <= 5) {  // a draft, some in two passes
      const int first = kind <= 3 ? 0 : n / 2, k = random_.below(n + 1);
      const std::span<const int> all = tokens;
      tried.open();
      if (first > 0) got = apply(*model_, tried, all.first(first));
      for (auto& row : apply(*model_, tried, all.subspan(first))) got.push_back(std::move(row));
      tried.commit(k);
      got.resize(k);
      want = decode(*model_, plain, all.first(k));
    } else if (kind == 6) {  // a draft by some layers, thrown away
      tried.open();
      for (const int token : tokens) {
        Batch batch;
        batch.add(tried, {&token, 1}, Batch::Logits::none);
        model_->forward_some(batch, some);
      }
      tried.commit(0);
    } else if (!plain_before || random_.below(2) == 0) {  // remember this point, or go back to the last
      plain_before = plain.snapshot();
      tried_before = tried.snapshot();
    } else {
      plain.restore(*tried_before);
      tried.restore(*plain_before);
    }
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); i++) ASSERT_TRUE(same_row(got[i], want[i])) << what << ", row " << i;
    ASSERT_EQ(tried.length(), plain.length()) << what;
    if (round % 10 != 9) continue;
    ASSERT_TRUE(same_state(tried.snapshot(), plain.snapshot())) << what;
  }
  expect_same_future(tried, plain, 20, "at the end");
}

// Two sequences of one batch: one with drafts, the other decoding, in two spans.
TEST_P(DraftedModel, NeighboursInABatchDoNotMeet) {
  const SequenceState a = started(30), b = started(50);
  const auto tokens = random_tokens(random_, 7, vocab_), other = random_tokens(random_, 3, vocab_);
  SequenceState tried = a, plain = b, tried_alone = a, plain_alone = b;
  tried.open();
  tried_alone.open();
  Batch batch;
  batch.add(tried, tokens, Batch::Logits::all);
  Snapshot kept;
  batch.add(plain, std::span(other).first(1), Batch::Logits::all, &kept);
  batch.add(plain, std::span(other).subspan(1), Batch::Logits::all);
  const auto got = rows_of(*model_, batch);
  auto want = apply(*model_, tried_alone, tokens);
  for (auto& row : apply(*model_, plain_alone, other)) want.push_back(std::move(row));
  for (size_t i = 0; i < got.size(); i++) EXPECT_TRUE(same_row(got[i], want[i])) << "row " << i;
  tried.commit(2);
  tried_alone.commit(2);
  EXPECT_TRUE(same_state(tried.snapshot(), tried_alone.snapshot()));
  EXPECT_TRUE(same_state(plain.snapshot(), plain_alone.snapshot()));
}

INSTANTIATE_TEST_SUITE_P(Cpu, DraftedModel,
                         ::testing::Combine(::testing::ValuesIn(checkpoints()), ::testing::Bool()),
                         [](const auto& info) {
                           return std::get<0>(info.param) +
                                  (std::get<1>(info.param) ? "_precise" : "_default");
                         });

// The reference backend multiplies matrices by another order for other row counts: close, not equal. Logits
// are sums of 32 products of size 1 at most after four layers of as many; 1e-4 is some hundred roundings.
// Spans of one sequence in one pass: their rows, and the states kept between them, are those of passes of
// their own.
TEST_P(DraftedModel, StatesWithinAPassAreKept) {
  const int first = ops::kKvBlock - 9;
  const auto tokens = random_tokens(random_, first + 40, vocab_);
  const std::span<const int> all = tokens;
  for (const std::vector<int>& places : {std::vector<int>{1}, {8, 9, 30}, {9, 17, 39}}) {
    SequenceState alone = model_->make_state(), together = alone;
    apply(*model_, alone, all.first(first));
    together.restore(alone.snapshot());
    std::vector<Row> want;
    std::vector<Snapshot> kept(places.size());
    std::vector<StateBytes> want_state;
    Batch batch;
    int at = 0;
    for (size_t i = 0; i < places.size(); at = places[i++]) {
      const auto part = all.subspan(first + at, places[i] - at);
      batch.add(together, part, Batch::Logits::all, &kept[i]);
      for (auto& row : apply(*model_, alone, part)) want.push_back(std::move(row));
      want_state.push_back(bytes_of(alone.snapshot()));
    }
    batch.add(together, all.subspan(first + at), Batch::Logits::all);
    for (auto& row : apply(*model_, alone, all.subspan(first + at))) want.push_back(std::move(row));
    const auto rows = rows_of(*model_, batch);
    for (size_t i = 0; i < rows.size(); i++) ASSERT_TRUE(same_row(rows[i], want[i])) << "row " << i;
    for (size_t i = 0; i < places.size(); i++) {
      EXPECT_EQ(kept[i].length, first + places[i]);
      EXPECT_TRUE(same_state(bytes_of(kept[i]), want_state[i])) << "after " << places[i];
    }
    EXPECT_TRUE(same_state(together.snapshot(), alone.snapshot()));
  }
}

TEST(DraftedModelReference, IsCloseToPlainDecoding) {
  for (const char* name : {"qwen35_nested_untied_grouped", "qwen35_wide_values_f32", "llama_tied"}) {
    Random random(3);
    const auto model = load(name, ops::reference_device());
    const int vocab = model->spec().vocab;
    auto start = model->make_state();
    apply(*model, start, random_tokens(random, 9, vocab));
    const auto tokens = random_tokens(random, 6, vocab), after = random_tokens(random, 2, vocab);
    SequenceState tried = start;
    tried.open();
    const auto rows = apply(*model, tried, tokens);
    const auto close = [&](const Row& a, const Row& b, const std::string& what) {
      for (size_t i = 0; i < a.logits.size(); i++)
        ASSERT_NEAR(a.logits[i], b.logits[i], 1e-4) << name << ": " << what << ", logit " << i;
    };
    SequenceState all = start;
    const auto each = decode(*model, all, tokens);
    for (int row = 0; row < 6; row++) close(rows[row], each[row], fmt::format("row {}", row));
    tried.commit(2);
    SequenceState plain = start;
    decode(*model, plain, {tokens.data(), 2});
    // A draft that is refused, then what stays.
    tried.open();
    apply(*model, tried, tokens);
    tried.commit(0);
    auto again = model->make_state();
    again.restore(tried.snapshot());
    const auto want = decode(*model, plain, after), got = decode(*model, tried, after);
    const auto restored = decode(*model, again, after);
    for (int i = 0; i < 2; i++) {
      close(got[i], want[i], fmt::format("token {} after", i));
      close(restored[i], want[i], fmt::format("token {} after, restored", i));
    }
  }
}

}  // namespace
}  // namespace anabranch
