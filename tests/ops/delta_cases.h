// What the gated delta rule on CUDA must do, on a card or an emulated one.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ops/cuda_cases.h"
#include "ops/linear.h"
#include "ops/recurrence.h"

namespace anabranch::ops {

struct Delta {
  RecurrenceShape shape;
  Tensor qkv, z, b, a;
  RecurrenceWeights weights;
};
inline Delta make_delta(const RecurrenceShape& s, int rows, Rng& rng) {
  const int c = s.conv_channels(), hv = s.value_heads;
  const auto in = [&](const Shape& shape, float scale = 1.0f) { return random_tensor(shape, rng, scale); };
  return {s,
          in({rows, c}),
          in({rows, hv * s.value_dim}),
          in({rows, hv}),
          in({rows, hv}),
          {in({s.conv_kernel, c}, 0.5f), in({hv}), in({hv}), in({s.value_dim})}};
}
inline Delta on_device(const Delta& d, Device& device) {
  const auto there = [&](const Tensor& x) { return device.to_device(x); };
  const RecurrenceWeights& w = d.weights;
  return {d.shape,    there(d.qkv),
          there(d.z), there(d.b),
          there(d.a), {there(w.conv_weight), there(w.a_log), there(w.dt_bias), there(w.norm_weight), w.eps}};
}
inline Tensor delta_rows(const Delta& d, int begin, int end, RecurrenceState& state, bool draft = false) {
  const auto cut = [&](const Tensor& x) { return x.slice_rows(begin, end); };
  const Tensor qkv = cut(d.qkv), z = cut(d.z), b = cut(d.b), a = cut(d.a);
  const RecurrenceSpan span{&state, 0, end - begin, draft};
  return recurrence_plain({qkv, z, b, a}, d.shape, d.weights, {&span, 1});
}

inline void expect_delta_like_reference(Device& card) {
  Rng rng(6);
  for (const auto& shape : kDeltaShapes) {
    const Delta d = make_delta(shape, 70, rng);
    const auto run = [&](Device& device) {
      const Delta here = on_device(d, device);
      auto state = make_recurrence_state(device, shape);
      const auto one = delta_rows(here, 0, 50, state), two = delta_rows(here, 50, 55, state);
      return concat_rows({one, two, delta_rows(here, 55, 70, state)});
    };
    expect_close(run(card), run(reference_device()), 5e-4,
                 fmt::format("{} heads of {}", shape.value_heads, shape.key_dim));
  }
}

// Rounds of speculation with everything, something or nothing accepted leave what plain steps leave.
inline void expect_drafts_of_delta(Device& card) {
  Rng rng(7);
  for (const auto& shape : kDeltaShapes) {
    const Delta d = on_device(make_delta(shape, 60, rng), card);
    auto plain = make_recurrence_state(card, shape), tried = make_recurrence_state(card, shape);
    std::vector<Tensor> expected;
    for (int t = 0; t < 60; t++) expected.push_back(to_host(delta_rows(d, t, t + 1, plain)));
    int at = 0;
    for (const auto& [drafted, kept] : {std::pair{4, 4}, {5, 2}, {3, 0}, {16, 9}, {1, 1}, {7, 1}}) {
      const Tensor y = to_host(delta_rows(d, at, at + drafted, tried, true));
      for (int i = 0; i < drafted; i++)
        expect_same_bits(y.slice_rows(i, i + 1), expected[static_cast<size_t>(at + i)],
                         fmt::format("token {} of a draft of {}", at + i, drafted));
      recurrence_commit(tried, kept);
      at += kept;
    }
    // Two launches in one draft, then a snapshot, and on from there for good.
    delta_rows(d, at, at + 2, tried, true);
    delta_rows(d, at + 2, at + 5, tried, true);
    recurrence_commit(tried, 3);
    at += 3;
    recurrence_fold(shape, tried);
    auto again = make_recurrence_state(card, shape);
    delta_rows(d, 0, at, again);
    expect_same_bits(to_host(tried.s), to_host(again.s), "state");
    expect_same_bits(to_host(tried.conv), to_host(again.conv), "conv rows");
    const RecurrenceState snapshot = tried;
    const auto before = to_vector(to_host(snapshot.s));
    const Tensor rest = to_host(delta_rows(d, at, 60, tried));
    for (int t = at; t < 60; t++)
      expect_same_bits(rest.slice_rows(t - at, t - at + 1), expected[static_cast<size_t>(t)],
                       fmt::format("token {} after the drafts", t));
    EXPECT_TRUE(bits_agree(to_vector(to_host(snapshot.s)), before)) << "a snapshot changed";
  }
}

// More sequences than a launch takes at once; in every step of theirs some take tokens for good, with or
// without accepted ones to apply first, and some are drafts: new ones, after other drafts, after some were
// accepted.
inline void expect_delta_of_many_sequences(Device& card) {
  Rng rng(11);
  const RecurrenceShape shape = kDeltaShapes[0];
  constexpr int kSequences = 40, kSteps = 7;
  const Matrix square = affine_matrix(128, 128, 8, 64, ScaleType::f16, false, 9);
  const Weight out = Weight::make(card, square.source());
  const auto numbers = [](const RecurrenceState& state) {
    std::vector<Tensor> all = {to_host(state.s), to_host(state.conv)};
    if (const auto& w = state.window)
      for (const auto* x : {&w->k, &w->delta, &w->decay, &w->rows}) all.push_back(to_host(*x));
    return all;
  };
  struct Sequence {
    RecurrenceState together, alone;
    std::optional<RecurrenceState> copy = {};  // of `together`, which goes on
    std::vector<Tensor> copied = {};           // what it held then
  };
  std::vector<Sequence> all;
  for (int i = 0; i < kSequences; i++)
    all.push_back({make_recurrence_state(card, shape), make_recurrence_state(card, shape)});
  for (int step = 0; step < kSteps; step++) {
    std::vector<RecurrenceSpan> spans;
    int rows = 0;
    for (int i = 0; i < kSequences; i++) {
      Sequence& s = all[static_cast<size_t>(i)];
      const int turn = (i + step) % 5;  // 0: for good; 1: as drafts; 2: more; 3: some accepted; 4: none
      const int open = s.together.window ? s.together.window->open : 0;
      const int accepted = turn == 4 ? 0 : std::min(open, 1 + i % 3);
      for (RecurrenceState* state : {&s.together, &s.alone})
        if (turn != 1 && turn != 2) recurrence_commit(*state, accepted);
      if (step == 3 && i % 4 == 0) s.copy = s.together, s.copied = numbers(s.together);
      const int count = turn > 0 ? 1 + i % 4 : step % 2 == 1 && i % 3 == 0 ? 20 : 1;
      spans.push_back({&s.together, rows, count, turn > 0});
      rows += count;
    }
    const Delta d = on_device(make_delta(shape, rows, rng), card);
    const Tensor y = to_host(linear(recurrence({d.qkv, d.z, d.b, d.a}, shape, d.weights, spans), out));
    for (int i = 0; i < kSequences; i++) {
      const auto& span = spans[static_cast<size_t>(i)];
      const int end = span.begin + span.count;
      auto& alone = all[static_cast<size_t>(i)].alone;
      expect_same_bits(to_host(linear(delta_rows(d, span.begin, end, alone, span.draft), out)),
                       y.slice_rows(span.begin, end), fmt::format("sequence {}, step {}", i, step));
    }
  }
  for (Sequence& s : all) {
    for (RecurrenceState* state : {&s.together, &s.alone}) {
      recurrence_commit(*state, 0);
      recurrence_fold(shape, *state);
    }
    expect_same_bits(to_host(s.together.s), to_host(s.alone.s), "state");
    expect_same_bits(to_host(s.together.conv), to_host(s.alone.conv), "conv rows");
    for (size_t i = 0; i < s.copied.size(); i++) expect_same_bits(numbers(*s.copy)[i], s.copied[i], "a copy");
  }
}

// Two spans of each sequence, and what is kept between them.
inline void expect_delta_of_spans(Device& card) {
  Rng rng(8);
  const RecurrenceShape shape = kDeltaShapes[0];
  const int sequences = 40, each = 3;
  const Delta d = on_device(make_delta(shape, sequences * each, rng), card);
  std::vector<RecurrenceState> together, alone;
  for (int i = 0; i < sequences; i++) {
    together.push_back(make_recurrence_state(card, shape));
    alone.push_back(make_recurrence_state(card, shape));
  }
  const Matrix square = affine_matrix(128, 128, 8, 64, ScaleType::f16, false, 9);
  const Weight out = Weight::make(card, square.source());
  std::vector<RecurrenceSpan> spans;
  std::optional<RecurrenceState> kept = make_recurrence_state(card, shape);
  for (int i = 0; i < sequences; i++) {
    spans.push_back({&together[static_cast<size_t>(i)], i * each, 1});
    spans.push_back({&together[static_cast<size_t>(i)], i * each + 1, each - 1});
  }
  spans[4].keep = &*kept;
  const Tensor y = to_host(linear(recurrence({d.qkv, d.z, d.b, d.a}, shape, d.weights, spans), out));
  for (int i = 0; i < sequences; i++) {
    auto& state = alone[static_cast<size_t>(i)];
    const auto first = delta_rows(d, i * each, i * each + 1, state);
    if (i == 2) {
      expect_same_bits(to_host(kept->s), to_host(state.s), "what was kept");
      expect_same_bits(to_host(kept->conv), to_host(state.conv), "conv rows kept");
    }
    const auto rest = delta_rows(d, i * each + 1, (i + 1) * each, state);
    expect_same_bits(to_host(linear(concat_rows({first, rest}), out)), y.slice_rows(i * each, (i + 1) * each),
                     fmt::format("sequence {}", i));
    expect_same_bits(to_host(together[static_cast<size_t>(i)].s), to_host(state.s), "state");
  }
}

}  // namespace anabranch::ops
