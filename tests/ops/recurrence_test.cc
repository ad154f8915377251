#include "ops/recurrence.h"

#include <algorithm>
#include <random>

#include "ops/recurrence_cases.h"

namespace anabranch::ops {
namespace {

TEST(Recurrence, EqualsReference) {
  for (const auto& s : kRecurrenceShapes) expect_recurrence_like_reference(cpu_device(), s);
}
TEST(Recurrence, SameBitsForAnyChunks) {  // the kernel takes 64 at a time
  for (const auto& s : kRecurrenceShapes)
    expect_recurrence_of_any_chunks(cpu_device(), s, 150, {{1}, {2}, {5, 1, 3, 20}, {32, 5}, {64}, {65}});
}
TEST(Recurrence, ACommittedDraftEqualsNeverHavingDrafted) {
  for (const auto& s : kRecurrenceShapes) expect_recurrence_drafts(cpu_device(), s);
}
TEST(Recurrence, SpansEqualCallsOfTheirOwn) {
  for (Device* device : cpu_and_reference())
    for (const auto& s : kRecurrenceShapes) expect_recurrence_spans(*device, s);
}

TEST(Recurrence, SameBitsForAnyThreadsAndTarget) {
  Rng rng(3);
  for (const auto& s : kRecurrenceShapes) {
    const RecurrenceCase inputs = make_inputs(s, 131, rng);
    auto first_state = make_recurrence_state(cpu_device(1), s);
    const Tensor first = run(s, on(cpu_device(1), inputs), {129, 1}, first_state);
    for (const auto& target : cpu::runnable_targets()) {
      for (int threads : {1, 3}) {
        Device& cpu = cpu_device(threads, false, target);
        auto state = make_recurrence_state(cpu, s);
        const auto what = fmt::format("{} {} threads {}", name(s), target, threads);
        expect_same_bits(run(s, on(cpu, inputs), {129, 1}, state), first, what);
        expect_same_bits(state.s, first_state.s, what + " state");
      }
    }
  }
}

TEST(Recurrence, ASharedStateIsNotChanged) {
  Rng rng(4);
  const auto s = kRecurrenceShapes[0];
  const RecurrenceCase inputs = make_inputs(s, 12, rng);
  for (Device* device : cpu_and_reference()) {
    const RecurrenceCase in = on(*device, inputs);
    auto state = make_recurrence_state(*device, s);
    step(s, in, 0, 6, state);
    const RecurrenceState snapshot = state;
    const auto s_before = to_vector(snapshot.s), conv_before = to_vector(snapshot.conv);
    const Tensor after = step(s, in, 6, 12, state);
    EXPECT_EQ(to_vector(snapshot.s), s_before);
    EXPECT_EQ(to_vector(snapshot.conv), conv_before);
    RecurrenceState again = snapshot;
    expect_same_bits(step(s, in, 6, 12, again), after, "continued from the snapshot");
    if (device->kind() == DeviceKind::reference) continue;
    const void* place = state.s.data<char>();
    step(s, in, 0, 1, state);
    EXPECT_EQ(state.s.data<char>(), place) << "an unshared state is advanced in place";
  }
}

TEST(Recurrence, DraftsEqualReferenceAndAnyTarget) {
  Rng rng(8);
  for (const auto& s : kRecurrenceShapes) {
    const RecurrenceCase inputs = make_inputs(s, 20, rng);
    const auto play = [&](Device& device, RecurrenceState& state) {
      const RecurrenceCase in = on(device, inputs);
      state = make_recurrence_state(device, s);
      std::vector<Tensor> parts = {step(s, in, 0, 6, state), try_rows(s, in, 6, 8, state),
                                   try_rows(s, in, 8, 9, state)};
      recurrence_commit(state, 2);
      parts.push_back(try_rows(s, in, 8, 15, state));
      recurrence_commit(state, 3);
      parts.push_back(step(s, in, 15, 20, state));
      return concat_rows(parts);
    };
    RecurrenceState first, oracle;
    const Tensor ours = play(cpu_device(), first);
    for (const auto& target : cpu::runnable_targets()) {
      for (const int threads : {1, 3}) {
        RecurrenceState state;
        expect_same_bits(play(cpu_device(threads, false, target), state), ours, name(s) + " " + target);
        expect_same_state(state, first, name(s) + " " + target);
      }
    }
    const Tensor theirs = play(reference_device(), oracle);
    expect_close(ours, theirs, 5e-4, name(s));
    expect_close(first.s, oracle.s, 1e-5, name(s) + " state");
    expect_close(first.conv, oracle.conv, 0, name(s) + " conv rows");
  }
}

// Pieces of random sizes; before each, drafts of other tokens, all rejected, and then drafts of the true
// tokens, of which each number from 0 to all is kept in turn.
TEST(Recurrence, PiecesAndRejectedDraftsGiveTheSameBits) {
  Rng rng(12);
  constexpr int kTokens = 300;
  Device& cpu = cpu_device(3);
  std::mt19937 random(5);
  for (const auto& s : kRecurrenceShapes) {
    const RecurrenceCase in = on(cpu, make_inputs(s, kTokens, rng)),
                         others = on(cpu, make_inputs(s, kMaxDraftTokens, rng));
    auto whole_state = make_recurrence_state(cpu, s);
    const Tensor whole = run(s, in, {kTokens}, whole_state);
    for (const int most : {1, 3, 16, 64}) {
      auto state = make_recurrence_state(cpu, s);
      int kept = 0, drafted = 1;
      for (int at = 0; at < kTokens;) {
        try_rows(s, others, 0, 1 + at % kMaxDraftTokens, state);
        recurrence_commit(state, 0);
        const int rows = std::min(drafted, kTokens - at);
        expect_same_bits(try_rows(s, in, at, at + rows, state), whole.slice_rows(at, at + rows), name(s));
        recurrence_commit(state, std::min(kept, rows));
        at += std::min(kept, rows);
        if (++kept > drafted) kept = 0, drafted = drafted % kMaxDraftTokens + 1;
        const int piece =
            std::min(1 + static_cast<int>(random() % static_cast<unsigned>(most)), kTokens - at);
        if (piece == 0) break;
        expect_same_bits(step(s, in, at, at + piece, state), whole.slice_rows(at, at + piece), name(s));
        at += piece;
      }
      recurrence_fold(s, state);
      expect_same_state(state, whole_state, name(s));
    }
  }
}

// For tokens in pieces, drafts of which some are accepted, and what comes after them.
TEST(Recurrence, AConvolutionWithoutGatesIsOneWithGatesOfOne) {
  Rng rng(21);
  for (Device* device : cpu_and_reference())
    for (const RecurrenceShape& s : kRecurrenceShapes) {
      if (s.channels == 0) continue;
      const RecurrenceCase in = on(*device, make_inputs(s, 20, rng));
      const int c = s.channels;
      const Tensor x = random_tensor({20, c}, rng);
      Tensor ones = host_device().empty({20, 3 * c}, Dtype::f32);
      std::fill_n(ones.data<float>(), ones.size(), 1.0f);
      for (int t = 0; t < 20; t++)
        std::copy_n(x.data<float>() + t * c, c, ones.data<float>() + (3 * t + 2) * c);
      const auto run_all = [&](const Tensor& rows, bool gated) {
        auto state = make_recurrence_state(*device, s);
        const ShortConvWeights weights{in.weights.conv_weight, in.weights.conv_bias, gated};
        std::vector<Tensor> parts;
        const auto piece = [&](int begin, int end, bool draft) {
          const RecurrenceSpan span{.state = &state, .count = end - begin, .draft = draft};
          const Tensor part = device->to_device(rows.slice_rows(begin, end));
          parts.push_back(short_conv(part, s, weights, {&span, 1}).values);
        };
        piece(0, 1, false), piece(1, 7, false), piece(7, 12, true), piece(12, 14, true);
        recurrence_commit(state, 3);
        piece(10, 15, false), piece(15, 20, false);
        return concat_rows(parts);
      };
      expect_same_bits(run_all(x, false), run_all(ones, true), name(s));
    }
}

TEST(Recurrence, RefusesRulesThatCannotBe) {
  Rng rng(13);
  const auto attempt = [&](RecurrenceShape s) {
    const RecurrenceCase in = on(cpu_device(), make_inputs(s, 2, rng));
    auto state = make_recurrence_state(cpu_device(), s);
    step(s, in, 0, 2, state);
  };
  const RecurrenceShape usual{1, 2, 16, 16, 4, false, kLightning};
  for (const auto change : std::initializer_list<void (*)(Rule&)>{
           [](Rule& r) { r.norm_group = 24; },
           [](Rule& r) { r.norm_group = 0, r.norm = Rule::Norm::after_gate; },
           [](Rule& r) { r.norm_group = 32, r.key_decay = true, r.beta = Rule::Beta::step; }}) {
    RecurrenceShape s = usual;
    s.rule.norm_group = 32;
    attempt(s);
    change(s.rule);
    EXPECT_THROW(attempt(s), std::invalid_argument);
  }
}

TEST(Recurrence, DraftsLeaveSharedStatesAlone) {
  Rng rng(9);
  const auto s = kRecurrenceShapes[0];
  const RecurrenceCase in = on(cpu_device(), make_inputs(s, 12, rng));
  auto state = make_recurrence_state(cpu_device(), s);
  step(s, in, 0, 2, state);
  try_rows(s, in, 2, 6, state);
  recurrence_commit(state, 3);
  auto copy = state, again = state;  // the same window, S and conv rows
  const Tensor out = try_rows(s, in, 5, 8, state);
  expect_same_bits(try_rows(s, in, 5, 8, copy), out, "from a copy");
  recurrence_fold(s, again);
  recurrence_commit(copy, 0);
  recurrence_fold(s, copy);
  expect_same_state(copy, again, "nothing kept");
}

TEST(Recurrence, RefusesDraftsThatCannotBe) {
  Rng rng(10);
  const auto s = kRecurrenceShapes[0];
  const RecurrenceCase in = on(cpu_device(), make_inputs(s, 20, rng));
  auto state = make_recurrence_state(cpu_device(), s);
  EXPECT_THROW(try_rows(s, in, 0, 17, state), std::invalid_argument);
  EXPECT_THROW(recurrence_commit(state, 1), std::invalid_argument);
  try_rows(s, in, 0, 3, state);
  EXPECT_THROW(step(s, in, 3, 4, state), std::invalid_argument) << "there are draft tokens";
  EXPECT_THROW(recurrence_fold(s, state), std::invalid_argument);
  EXPECT_THROW(recurrence_commit(state, 4), std::invalid_argument);
  EXPECT_THROW(recurrence_commit(state, -1), std::invalid_argument);
  // Spans of one state in one call: 17 as drafts, and tokens for good after some as drafts.
  for (const bool draft : {true, false}) {
    auto other = make_recurrence_state(cpu_device(), s);
    const RecurrenceSpan spans[] = {{.state = &other, .begin = 0, .count = 9, .draft = true},
                                    {.state = &other, .begin = 9, .count = draft ? 8 : 1, .draft = draft}};
    const int rows = draft ? 17 : 10;
    const Tensor qkv = in.qkv.slice_rows(0, rows), z = in.z.slice_rows(0, rows), b = in.b.slice_rows(0, rows),
                 a = in.a.slice_rows(0, rows);
    EXPECT_THROW(recurrence_plain({qkv, z, b, a}, s, in.weights, spans), std::invalid_argument) << draft;
  }
}

TEST(Recurrence, RefusesWrongShapes) {
  Rng rng(5);
  const auto s = kRecurrenceShapes[0];
  Device& cpu = cpu_device();
  RecurrenceCase in = on(cpu, make_inputs(s, 2, rng));
  auto state = make_recurrence_state(cpu, s), other = make_recurrence_state(cpu, kRecurrenceShapes[1]);
  EXPECT_THROW(step(s, in, 0, 2, other), std::invalid_argument);
  in.b = cpu.zeros({2, 3}, Dtype::f32);
  EXPECT_THROW(step(s, in, 0, 2, state), std::invalid_argument);
}

}  // namespace
}  // namespace anabranch::ops
