// A sequence's memory under its verbs, driven as the layers of a model drive it: attention and recurrent
// layers apply rows of random numbers, and a state that had drafts must equal one that never was, bit for
// bit.
#include "state/sequence_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "ops/elementwise.h"
#include "ops/testing.h"
#include "state/state_bits.h"

namespace anabranch {
namespace {

using ops::Rng;
using ops::to_vector;
using testing::same_state;

const ops::RecurrenceShape kShape{
    .key_heads = 2, .value_heads = 4, .key_dim = 8, .value_dim = 16, .conv_kernel = 4};
const StateLayout kLayout = {kShape, KvLayout{2, 32}, kShape, KvLayout{1, 64}};

// The device that the tests use.
bool precise = false;
Device& device() {
  return ops::cpu_device(0, precise);
}

// What the layers are given for each of some tokens.
class Tokens {
 public:
  Tokens(int count, unsigned seed, float scale = 1) : count_(count) {
    Rng rng(seed);
    const int c = kShape.conv_channels(), hv = kShape.value_heads, values = hv * kShape.value_dim;
    for (const int width : {c, values, hv, hv, 2 * 32, 2 * 32, 64, 64})
      parts_.push_back(device().to_device(ops::random_tensor({count, width}, rng, scale)));
  }
  int count() const { return count_; }
  Tokens take(std::span<const int> rows) const {
    Tokens out = *this;
    out.count_ = static_cast<int>(rows.size());
    for (Tensor& part : out.parts_) part = ops::take_rows(part, rows);
    return out;
  }
  Tokens slice(int begin, int end) const {
    std::vector<int> rows(end - begin);
    std::iota(rows.begin(), rows.end(), begin);
    return take(rows);
  }
  const Tensor& operator[](int part) const { return parts_[part]; }

 private:
  int count_;
  std::vector<Tensor> parts_;
};

const ops::RecurrenceWeights& weights() {
  static const ops::RecurrenceWeights weights = [] {
    Rng rng(1);
    const int hv = kShape.value_heads;
    const auto random = [&](const Shape& shape, float scale = 1) {
      return ops::cpu_device().to_device(ops::random_tensor(shape, rng, scale));
    };
    const auto conv = random({kShape.conv_kernel, kShape.conv_channels()}, 0.5f);
    const auto a_log = random({hv}), dt_bias = random({hv}), norm = random({kShape.value_dim});
    return ops::RecurrenceWeights{conv, a_log, dt_bias, norm};
  }();
  return weights;
}

// The mixer of a recurrent layer.
Tensor mix(ops::RecurrenceState& delta, const Tokens& in, bool draft) {
  const ops::RecurrenceSpan span{&delta, 0, in.count(), draft};
  return ops::recurrence_plain({in[0], in[1], in[2], in[3]}, kShape, weights(), {&span, 1});
}

// What the layers at `which` put out, one after the other.
std::vector<float> apply(SequenceState& state, const Tokens& in, std::vector<int> which = {0, 1, 2, 3}) {
  std::vector<float> out;
  for (const int layer : which) {
    const auto result = [&] {
      if (layer % 2 == 0) {
        return mix(state.recurrent(layer), in, state.has_draft_tokens());
      }
      auto& kv = state.attention(layer).kv;
      const Shape shape = {in.count(), kv.kv_heads, kv.head_dim};
      const auto k = in[layer == 1 ? 4 : 6].reshape(shape), v = in[layer == 1 ? 5 : 7].reshape(shape);
      ops::kv_append(kv, k, v);
      return ops::attention(v.reshape(shape), kv, {0.2f});
    }();
    const auto values = to_vector(result);
    out.insert(out.end(), values.begin(), values.end());
  }
  state.advance(in.count());
  return out;
}

SequenceState started(int length) {
  SequenceState state(device(), kLayout);
  if (length > 0) apply(state, Tokens(length, 2));
  return state;
}

class SequenceStateTest : public ::testing::Test {
 protected:
  void TearDown() override { precise = false; }
};

TEST_F(SequenceStateTest, CountsItsBytes) {
  EXPECT_EQ(kv_bytes_per_token(kLayout, ops::cpu_device()), 2u * (2 * 32 + 64) * 2);
  EXPECT_EQ(kv_bytes_per_token(kLayout, ops::cpu_device(0, true)), 2u * (2 * 32 + 64) * 4);
  // Two layers of S [4, 8, 16] and three conv rows of 2 * 2 * 8 + 4 * 16 channels, fp32.
  EXPECT_EQ(fixed_bytes(kLayout, device()), 2u * 4 * (4 * 8 * 16 + 3 * 96));
  SequenceState state = started(2);
  uint64_t window = 0;
  for (const int layer : {0, 2}) EXPECT_FALSE(state.recurrent(layer).window) << "only a draft needs one";
  state.open();
  apply(state, Tokens(1, 3));
  for (const int layer : {0, 2}) {
    const auto& w = *state.recurrent(layer).window;
    window += w.k.nbytes() + w.delta.nbytes() + w.decay.nbytes() + w.rows.nbytes();
  }
  EXPECT_EQ(window_bytes(kLayout), window);
}

TEST_F(SequenceStateTest, StartsEmptyAndGivesEachLayerItsPart) {
  SequenceState state(device(), kLayout);
  EXPECT_EQ(state.length(), 0);
  EXPECT_FALSE(state.has_draft_tokens());
  EXPECT_EQ(state.attention(1).kv.kv_heads, 2);
  EXPECT_EQ(state.attention(3).kv.head_dim, 64);
  EXPECT_EQ(state.attention(1).kv.length, 0);
  for (const int layer : {0, 2})
    for (const float value : to_vector(state.recurrent(layer).s)) ASSERT_EQ(value, 0.0f);
  state.advance(5);
  EXPECT_EQ(state.length(), 5);
  state.open();
  state.advance(3);
  EXPECT_EQ(state.length(), 5);
  EXPECT_EQ(state.applied(), 8);
}

TEST_F(SequenceStateTest, AfterACommitTheRestNeverWas) {
  for (const bool fp32 : {false, true}) {
    precise = fp32;
    const SequenceState start = started(ops::kKvBlock - 5);
    const Tokens draft(kMaxDraftTokens, 3), after(4, 4);
    SequenceState ahead = start;
    const auto all = apply(ahead, draft.slice(0, 7));
    for (int k = 0; k <= kMaxDraftTokens; k++) {
      SequenceState plain = start, tried = start;
      tried.open();
      EXPECT_TRUE(ops::bits_agree(apply(tried, draft.slice(0, 7)), all)) << "as a draft";
      apply(tried, draft.slice(7, kMaxDraftTokens));
      EXPECT_EQ(tried.applied(), start.length() + kMaxDraftTokens);
      tried.commit(k);
      EXPECT_EQ(tried.length(), start.length() + k);
      if (k > 0) apply(plain, draft.slice(0, k));
      SequenceState settled = tried;
      EXPECT_TRUE(same_state(settled.snapshot(), plain.snapshot())) << k << " kept";
      EXPECT_TRUE(ops::bits_agree(apply(tried, after), apply(plain, after))) << k << " kept";
      EXPECT_TRUE(same_state(tried.snapshot(), plain.snapshot())) << k << " kept, and more";
    }
  }
}

// With commits pending before, at the start of a block, twice, or without.
TEST_F(SequenceStateTest, WhatIsTakenBackNeverWas) {
  for (const int length : {0, 20, ops::kKvBlock - 1, ops::kKvBlock, ops::kKvBlock + 1})
    for (const int accepted : {0, 3}) {
      SCOPED_TRACE(::testing::PrintToString(std::pair(length, accepted)));
      SequenceState plain = started(length), tried = started(length);
      for (SequenceState* state : {&plain, &tried}) {
        state->open();
        apply(*state, Tokens(5, 3));
        state->commit(accepted);
      }
      for (int i = 0; i < 4; i++) {
        tried.remember();
        apply(tried, Tokens(1, 50 + static_cast<unsigned>(i), 1e30f));
        EXPECT_EQ(tried.length(), plain.length() + 1);
        tried.take_back();
        EXPECT_EQ(tried.length(), plain.length());
        if (i == 2) tried.remember();  // and what comes next stays
        const Tokens next(1, 10 + static_cast<unsigned>(i));
        EXPECT_TRUE(ops::bits_agree(apply(tried, next), apply(plain, next)));
        if (i > 0) {
          EXPECT_TRUE(same_state(tried.snapshot(), plain.snapshot()));
        }
      }
    }
}

// A refused draft may have begun a block: it stays for the next tokens, but no snapshot holds it.
TEST_F(SequenceStateTest, ABlockBegunByARefusedDraftIsUsedAgain) {
  SequenceState tried = started(ops::kKvBlock - 2), plain = started(ops::kKvBlock - 2);
  tried.open();
  apply(tried, Tokens(6, 3, 1e30f));  // as large as can be: f16 saturates
  ASSERT_EQ(tried.attention(1).kv.k.size(), 2u);
  const void* begun = tried.attention(1).kv.k[1].data<char>();
  tried.commit(0);
  EXPECT_EQ(tried.snapshot().layers.size(), 4u);
  EXPECT_EQ(std::get<ops::PagedKv>(tried.snapshot().layers[1]).k.size(), 1u);
  for (int i = 0; i < 6; i++) {
    const Tokens next(1, 10 + i);
    EXPECT_TRUE(ops::bits_agree(apply(tried, next), apply(plain, next))) << "token " << i;
    EXPECT_TRUE(same_state(tried.snapshot(), plain.snapshot())) << "token " << i;
  }
  EXPECT_EQ(tried.attention(1).kv.k[1].data<char>(), begun) << "no new memory";
}

TEST_F(SequenceStateTest, SnapshotsTakeInWhatIsPending) {
  SequenceState plain = started(20), tried = started(20);
  const Tokens draft(9, 3), other(30, 5), after(3, 4);
  tried.open();
  apply(tried, draft);
  tried.commit(5);
  apply(plain, draft.slice(0, 5));
  const Snapshot snapshot = tried.snapshot();
  EXPECT_TRUE(same_state(snapshot, plain.snapshot()));
  EXPECT_TRUE(same_state(tried.snapshot(), snapshot)) << "taken twice";
  // Into a state of another past, with a commit pending itself.
  SequenceState stranger = started(300);
  stranger.open();
  apply(stranger, other.slice(0, 16));
  stranger.commit(11);
  stranger.restore(snapshot);
  EXPECT_EQ(stranger.length(), 25);
  EXPECT_TRUE(same_state(stranger.snapshot(), snapshot));
  const auto want = apply(plain, after);
  EXPECT_TRUE(ops::bits_agree(apply(stranger, after), want));
  EXPECT_TRUE(ops::bits_agree(apply(tried, after), want));
  // The snapshot is as it was: back to it, through a draft this time.
  for (SequenceState* state : {&tried, &stranger}) {
    state->restore(snapshot);
    state->open();
    apply(*state, other.slice(0, 2));
    state->commit(0);
    state->open();
    EXPECT_TRUE(ops::bits_agree(apply(*state, after), want));
    state->commit(3);
    EXPECT_TRUE(same_state(state->snapshot(), plain.snapshot()));
  }
}

TEST_F(SequenceStateTest, CopiesShareButDoNotTouchEachOther) {
  SequenceState a = started(ops::kKvBlock + 10);
  a.open();
  apply(a, Tokens(4, 3));
  a.commit(2);  // pending in both
  SequenceState b = a;
  const auto block = [](SequenceState& s, int i) { return s.attention(1).kv.k[i].data<char>(); };
  EXPECT_EQ(block(a, 1), block(b, 1));
  SequenceState a_alone = started(ops::kKvBlock + 10), b_alone = started(ops::kKvBlock + 10);
  for (auto* state : {&a_alone, &b_alone}) apply(*state, Tokens(4, 3).slice(0, 2));
  for (int round = 0; round < 6; round++) {
    const Tokens for_a(5, 20 + round), for_b(3, 40 + round);
    a.open();
    apply(a, for_a);
    b.open();
    SequenceState c = b;  // during a draft
    apply(b, for_b);
    b.commit(round % 4);
    apply(c, for_a);
    a.commit(round % 6);
    c.commit(0);
    if (round % 6 > 0) apply(a_alone, for_a.slice(0, round % 6));
    EXPECT_TRUE(same_state(c.snapshot(), b_alone.snapshot())) << "round " << round;
    if (round % 4 > 0) apply(b_alone, for_b.slice(0, round % 4));
  }
  EXPECT_TRUE(same_state(a.snapshot(), a_alone.snapshot()));
  EXPECT_TRUE(same_state(b.snapshot(), b_alone.snapshot()));
  EXPECT_EQ(block(a, 0), block(b, 0)) << "a full block is never copied";
  EXPECT_NE(block(a, 1), block(b, 1));
}

TEST_F(SequenceStateTest, ManyRounds) {
  SequenceState plain = started(3), tried = started(3);
  Rng rng(9);
  for (int round = 0; round < 200; round++) {
    const int n = 1 + static_cast<int>(rng() % kMaxDraftTokens), k = static_cast<int>(rng() % (n + 1));
    const Tokens draft(n, 100 + round);
    if (round % 5 == 4) {
      EXPECT_TRUE(ops::bits_agree(apply(tried, draft), apply(plain, draft)));
      continue;
    }
    tried.open();
    if (round % 7 == 0) {  // opened, but nothing came
      tried.commit(0);
      tried.open();
    }
    apply(tried, draft);
    tried.commit(k);
    if (k > 0) apply(plain, draft.slice(0, k));
    if (round % 20 != 19) continue;
    ASSERT_TRUE(same_state(tried.snapshot(), plain.snapshot())) << "round " << round;
  }
  EXPECT_GT(tried.length(), 3 * ops::kKvBlock);
  EXPECT_TRUE(same_state(tried.snapshot(), plain.snapshot()));
}

// S is read and written in place, and the window is allocated once.
TEST_F(SequenceStateTest, RoundsAllocateNothing) {
  SequenceState state = started(10);
  const auto round = [&](int seed) {
    state.open();
    apply(state, Tokens(6, seed));
    state.commit(3);
  };
  round(3);
  const auto places = [&] {
    std::vector<const void*> out;
    for (const int layer : {0, 2}) {
      const auto& d = state.recurrent(layer);
      for (const Tensor& x : {d.s, d.conv, d.window->k, d.window->delta, d.window->decay, d.window->rows})
        out.push_back(x.data<char>());
    }
    for (const int layer : {1, 3}) out.push_back(state.attention(layer).kv.k[0].data<char>());
    return out;
  };
  const auto before = places();
  for (int i = 0; i < 5; i++) round(4 + i);
  EXPECT_EQ(places(), before);
}

// A draft by some layers, and a model that leaves layers out for good: their part keeps its length, so that
// no position is taken for filled that is not.
TEST_F(SequenceStateTest, LayersLeftOutOfADraftStayAsTheyAre) {
  SequenceState plain = started(300), tried = started(300);
  tried.open();
  for (int i = 0; i < 5; i++) apply(tried, Tokens(1, 50 + i), {0, 1});
  tried.commit(0);
  EXPECT_TRUE(same_state(tried.snapshot(), plain.snapshot()));

  SequenceState lossy(device(), kLayout);
  apply(lossy, Tokens(300, 2), {0, 1, 2});
  lossy.open();
  apply(lossy, Tokens(4, 3), {0, 1, 2});
  lossy.commit(2);
  EXPECT_EQ(lossy.attention(1).kv.length, 302);
  const auto& unused = lossy.attention(3).kv;
  EXPECT_EQ(unused.length, 0);
  EXPECT_EQ(unused.k.size(), 0u);
  const auto snapshot = lossy.snapshot();
  EXPECT_EQ(std::get<ops::PagedKv>(snapshot.layers[3]).length, 0);
  lossy.open();
  apply(lossy, Tokens(1, 4), {3});
  lossy.commit(0);
  EXPECT_LE(unused.length, static_cast<int>(unused.k.size()) * ops::kKvBlock);
}

TEST_F(SequenceStateTest, ADraftHoldsSixteenTokensAtMost) {
  SequenceState state = started(4);
  state.open();
  apply(state, Tokens(kMaxDraftTokens, 3), {0});
  EXPECT_THROW(apply(state, Tokens(1, 4), {0}), std::invalid_argument);
}

class SequenceStateDeathTest : public SequenceStateTest {
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(SequenceStateDeathTest, AskingForTheWrongKindAborts) {
  SequenceState state(device(), kLayout);
  EXPECT_DEATH(state.attention(0), "keeps no keys and values");
  EXPECT_DEATH(state.recurrent(1), "keeps no recurrent state");
}

TEST_F(SequenceStateDeathTest, VerbsOutOfTurnAbort) {
  SequenceState state = started(4);
  const Snapshot snapshot = state.snapshot();
  EXPECT_DEATH(state.commit(0), "cannot stay");
  state.open();
  EXPECT_DEATH(state.open(), "open already");
  EXPECT_DEATH(state.snapshot(), "during a draft");
  EXPECT_DEATH(state.restore(snapshot), "snapshot");
  EXPECT_DEATH(state.commit(1), "1 of 0 tokens cannot stay");
  apply(state, Tokens(3, 3));
  EXPECT_DEATH(state.commit(4), "4 of 3 tokens cannot stay");
  EXPECT_DEATH(state.commit(kMaxDraftTokens + 1), "17 of 3 tokens cannot stay");
  EXPECT_DEATH(state.commit(-1), "-1 of 3 tokens cannot stay");
  state.commit(3);
  SequenceState other(device(), StateLayout{kShape});
  EXPECT_DEATH(other.restore(snapshot), "4 layers for 1");
}

// What no later query sees through a window is dropped, as the sequence grows and in snapshots.
TEST(SequenceState, DropsBlocksBehindAWindow) {
  SequenceState state(device(), StateLayout{KvLayout{1, 16, 300}, KvLayout{1, 16}, KvLayout{1, 16, 5000}});
  const auto append = [&](int tokens) {
    const Tensor rows = device().zeros({tokens, 1, 16}, Dtype::f32);
    for (const int layer : {0, 1, 2}) ops::kv_append(state.attention(layer).kv, rows, rows);
    state.advance(tokens);
  };
  const auto dropped = [](const ops::PagedKv& kv) {
    return std::ranges::count_if(kv.k, [](const Tensor& block) { return block.empty(); });
  };
  append(554);
  EXPECT_EQ(dropped(state.attention(0).kv), 0) << "position 554 sees 255";
  append(1);
  EXPECT_EQ(dropped(state.attention(0).kv), 1) << "position 555 sees from 256 on";
  const Snapshot snapshot = state.snapshot();
  append(1000);
  EXPECT_EQ(dropped(state.attention(0).kv), 4);
  EXPECT_EQ(dropped(state.attention(1).kv), 0);
  EXPECT_EQ(dropped(state.attention(2).kv), 0) << "large windows are kept with all blocks";
  state.restore(snapshot);
  EXPECT_EQ(dropped(state.attention(0).kv), 1);
  state.open();
  const Tensor rows = device().zeros({3, 1, 16}, Dtype::f32);
  for (const int layer : {0, 1, 2}) ops::kv_append(state.attention(layer).kv, rows, rows);
  state.advance(3);
  state.commit(1);
  EXPECT_EQ(state.length(), 556);
  EXPECT_EQ(dropped(state.attention(0).kv), 1);
  state.restore(snapshot);
  append(254);
  state.open();
  for (const int layer : {0, 1, 2}) ops::kv_append(state.attention(layer).kv, rows, rows);
  state.advance(3);
  state.commit(3);
  EXPECT_EQ(state.length(), 812);
  EXPECT_EQ(dropped(state.attention(0).kv), 2) << "a draft moves the window, too";
  // What may be taken back keeps the blocks that it would need again.
  state.restore(snapshot);
  append(255);
  EXPECT_EQ(dropped(state.attention(0).kv), 1) << "position 810 sees 511";
  state.remember();
  append(1);
  EXPECT_EQ(dropped(state.attention(0).kv), 1);
  EXPECT_EQ(dropped(std::get<ops::PagedKv>(state.snapshot().layers[0])), 2) << "nobody takes back a snapshot";
  state.take_back();
  EXPECT_EQ(state.length(), 810);
  append(1);
  EXPECT_EQ(dropped(state.attention(0).kv), 2) << "position 811 sees from 512 on";
  EXPECT_EQ(kv_bytes_per_token({KvLayout{1, 16, 300}, KvLayout{1, 16}}, device()), 64u);
  EXPECT_EQ(fixed_bytes({KvLayout{1, 16, 300}}, device()), (300u + 256 + device().prefill_chunk()) * 64);
  EXPECT_EQ(kv_bytes_per_token({KvLayout{1, 20, 0, 12}}, device()), 40u) << "values are a part of the keys";
}

}  // namespace
}  // namespace anabranch
