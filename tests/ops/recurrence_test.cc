#include "ops/recurrence.h"

#include <algorithm>
#include <random>

#include "ops/elementwise.h"
#include "ops/testing.h"

namespace anabranch::ops {
namespace {

using Rule = RecurrenceRule;
constexpr Rule kMamba2{.delta = false,
                       .unit_keys = false,
                       .beta = Rule::Beta::step,
                       .step_min = 0.01f,
                       .step_max = 1.5f,
                       .conv_bias = true,
                       .skip = true,
                       .norm = Rule::Norm::after_gate,
                       .norm_group = 96};
constexpr Rule kLightning{.delta = false,
                          .unit_keys = false,
                          .beta = Rule::Beta::one,
                          .decay = Rule::Decay::constant,
                          .norm_group = 120};

// Mamba2 with a group of several heads, with norms before the gate and without; lightning attention without a
// convolution; OLMo's Gated DeltaNet; both forms of KDA; parts of these together; and short convolutions.
std::vector<RecurrenceShape> all_shapes() {
  std::vector<RecurrenceShape> shapes = {
      {2, 4, 32, 32, 4}, {3, 3, 128, 128, 4}, {2, 6, 24, 40, 3}, {1, 2, 7, 5, 2}, {2, 4, 24, 24, 4, true}};
  const auto with = [](Rule rule, auto change) {
    change(rule);
    return rule;
  };
  shapes.push_back({1, 18, 40, 16, 4, false, kMamba2});
  shapes.push_back(
      {2, 6, 64, 64, 3, false, with(kMamba2, [](Rule& r) { r.norm = Rule::Norm::before_gate; })});
  shapes.push_back({2, 4, 256, 72, 4, false, with(kMamba2, [](Rule& r) { r.norm = Rule::Norm::none; })});
  shapes.push_back({3, 3, 24, 40, 1, true, kLightning});
  shapes.push_back({2, 2, 96, 192, 4, false, {.beta = Rule::Beta::sigmoid2}});
  shapes.push_back({2, 2, 64, 48, 4, true, {.key_decay = true}});
  shapes.push_back(
      {2, 4, 21, 33, 4, true, {.key_decay = true, .decay = Rule::Decay::bounded, .bound = -5, .skip = true}});
  shapes.push_back({1, 2, 17, 20, 4, false, {.delta = false, .key_decay = true, .conv_bias = true}});
  shapes.push_back({2, 2, 32, 16, 2, false, {.decay = Rule::Decay::bounded, .bound = -3, .norm_group = 32}});
  for (const auto& [channels, taps, bias] : {std::tuple{40, 3, false}, {150, 4, true}, {7, 1, false}}) {
    RecurrenceShape convolution;
    convolution.channels = channels;
    convolution.conv_kernel = taps;
    convolution.rule.conv_bias = bias;
    shapes.push_back(convolution);
  }
  return shapes;
}
const std::vector<RecurrenceShape> kShapes = all_shapes();

std::string name(const RecurrenceShape& s) {
  const int kind = static_cast<int>(&s - kShapes.data());
  return fmt::format("kind {}: {} key heads of {}, {} value heads of {}", kind, s.key_heads, s.key_dim,
                     s.value_heads, s.value_dim);
}

struct Inputs {
  Tensor qkv, z, b, a;  // of a short convolution only qkv: its input
  RecurrenceWeights weights;
};

Inputs make_inputs(const RecurrenceShape& s, int tokens, Rng& rng) {
  const int c = s.conv_channels(), hv = s.value_heads;
  if (s.channels > 0) {
    const Tensor none = random_tensor({tokens, 1}, rng);
    RecurrenceWeights w{random_tensor({s.conv_kernel, c}, rng, 0.5f), none, none, none};
    if (s.rule.conv_bias) w.conv_bias = random_tensor({c}, rng);
    return {random_tensor({tokens, 3 * c}, rng), none, none, none, w};
  }
  const int decays = hv * s.decay_dim(), outputs = hv * s.value_dim;
  RecurrenceWeights w{random_tensor({s.conv_kernel, c}, rng, 0.5f), random_tensor({hv}, rng),
                      random_tensor({decays}, rng),
                      random_tensor({s.rule.norm_group > 0 ? outputs : s.value_dim}, rng)};
  if (s.rule.conv_bias) w.conv_bias = random_tensor({c}, rng);
  if (s.rule.skip) w.skip = random_tensor({hv}, rng);
  return {random_tensor({tokens, c}, rng), random_tensor({tokens, outputs}, rng),
          random_tensor({tokens, hv}, rng), random_tensor({tokens, decays}, rng), w};
}

Inputs on(Device& device, const Inputs& in) {
  const auto put = [&](const Tensor& x) { return device.to_device(x); };
  const auto some = [&](const std::optional<Tensor>& x) {
    return x ? std::optional(device.to_device(*x)) : std::nullopt;
  };
  const RecurrenceWeights& w = in.weights;
  return {put(in.qkv),
          put(in.z),
          put(in.b),
          put(in.a),
          {put(w.conv_weight), put(w.a_log), put(w.dt_bias), put(w.norm_weight), w.eps, some(w.conv_bias),
           some(w.skip)}};
}

Tensor run_spans(const RecurrenceShape& s, const Inputs& in, std::span<const RecurrenceSpan> spans) {
  if (s.channels == 0) return recurrence_plain({in.qkv, in.z, in.b, in.a}, s, in.weights, spans);
  return short_conv(in.qkv, s, {in.weights.conv_weight, in.weights.conv_bias}, spans).values;
}

// The mixer for rows [begin, end) of the inputs as one span of them alone.
Tensor mix(const RecurrenceShape& s, const Inputs& in, int begin, int end, RecurrenceSpan span) {
  const auto rows = [&](const Tensor& x) { return x.slice_rows(begin, end); };
  const Inputs part{rows(in.qkv), rows(in.z), rows(in.b), rows(in.a), in.weights};
  span.count = end - begin;
  return run_spans(s, part, std::span(&span, 1));
}

Tensor step(const RecurrenceShape& s, const Inputs& in, int begin, int end, RecurrenceState& state) {
  return mix(s, in, begin, end, {.state = &state});
}

// As drafts.
Tensor try_rows(const RecurrenceShape& s, const Inputs& in, int begin, int end, RecurrenceState& state) {
  return mix(s, in, begin, end, {.state = &state, .draft = true});
}

Tensor run(const RecurrenceShape& s, const Inputs& in, const std::vector<int>& chunks,
           RecurrenceState& state) {
  std::vector<Tensor> parts;
  const int tokens = in.qkv.shape(0);
  size_t i = 0;
  for (int t = 0; t < tokens;) {
    const int end = std::min(tokens, t + chunks[std::min(i++, chunks.size() - 1)]);
    parts.push_back(step(s, in, t, end, state));
    t = end;
  }
  return concat_rows(parts);
}

TEST(Recurrence, EqualsReference) {
  Rng rng(1);
  for (const auto& s : kShapes) {
    const Inputs in = make_inputs(s, 40, rng);
    auto ours_state = make_recurrence_state(cpu_device(), s),
         theirs_state = make_recurrence_state(reference_device(), s);
    const Tensor ours = run(s, on(cpu_device(), in), {25, 15}, ours_state);
    const Tensor theirs = run(s, on(reference_device(), in), {40}, theirs_state);
    // The output norm brings everything to size 1; errors of the recurrence stay near 1e-6 of that.
    expect_close(ours, theirs, 5e-4, name(s));
    expect_close(ours_state.s, theirs_state.s, 1e-5, name(s) + " state");
    expect_close(ours_state.conv, theirs_state.conv, 0, name(s) + " conv rows");
  }
}

TEST(Recurrence, SameBitsForAnyChunks) {
  Rng rng(2);
  Device& cpu = cpu_device();
  for (const auto& s : kShapes) {
    const Inputs in = on(cpu, make_inputs(s, 150, rng));  // the kernel takes 64 at a time
    auto whole_state = make_recurrence_state(cpu, s);
    const Tensor whole = run(s, in, {150}, whole_state);
    for (const auto& chunks : {std::vector<int>{1}, {2}, {5, 1, 3, 20}, {32, 5}, {64}, {65}}) {
      auto state = make_recurrence_state(cpu, s);
      const auto what = fmt::format("{} first chunk {}", name(s), chunks[0]);
      expect_same_bits(run(s, in, chunks, state), whole, what);
      expect_same_bits(state.s, whole_state.s, what + " state");
      expect_same_bits(state.conv, whole_state.conv, what + " conv rows");
    }
  }
}

TEST(Recurrence, SameBitsForAnyThreadsAndTarget) {
  Rng rng(3);
  for (const auto& s : kShapes) {
    const Inputs inputs = make_inputs(s, 131, rng);
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
  const auto s = kShapes[0];
  const Inputs inputs = make_inputs(s, 12, rng);
  for (Device* device : cpu_and_reference()) {
    const Inputs in = on(*device, inputs);
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

void expect_same_state(const RecurrenceState& a, const RecurrenceState& b, const std::string& what) {
  expect_same_bits(a.s, b.s, what + " state");
  expect_same_bits(a.conv, b.conv, what + " conv rows");
}

TEST(Recurrence, ACommittedDraftEqualsNeverHavingDrafted) {
  Rng rng(6);
  Device& cpu = cpu_device();
  for (const auto& s : kShapes) {
    const Inputs in = on(cpu, make_inputs(s, 60, rng));
    auto plain = make_recurrence_state(cpu, s), tried = make_recurrence_state(cpu, s);
    expect_same_bits(step(s, in, 0, 5, plain), step(s, in, 0, 5, tried), "before");
    int at = 5;
    // Rounds: `rows` as drafts in `launches`, of which `keep` turn out real.
    const struct {
      int rows, launches, keep;
    } rounds[] = {{1, 1, 1},   {4, 1, 0},   {4, 1, 2}, {3, 1, 3}, {6, 3, 4},
                  {16, 1, 16}, {16, 16, 7}, {2, 1, 0}, {5, 5, 1}};
    for (const auto& r : rounds) {
      const auto what =
          fmt::format("{}: {} rows in {} launches, {} kept", name(s), r.rows, r.launches, r.keep);
      std::vector<Tensor> parts;
      for (int l = 0; l < r.launches; l++)
        parts.push_back(
            try_rows(s, in, at + r.rows * l / r.launches, at + r.rows * (l + 1) / r.launches, tried));
      auto ahead = plain;
      expect_same_bits(concat_rows(parts), step(s, in, at, at + r.rows, ahead), what);
      recurrence_commit(tried, r.keep);
      if (r.keep > 0) step(s, in, at, at + r.keep, plain);
      at += r.keep;
      auto settled = tried;  // the draft goes on from the unsettled one
      recurrence_fold(s, settled);
      expect_same_state(settled, plain, what);
    }
    expect_same_bits(step(s, in, at, at + 3, tried), step(s, in, at, at + 3, plain), name(s) + " after");
    expect_same_state(tried, plain, name(s) + " after");
  }
}

TEST(Recurrence, DraftsEqualReferenceAndAnyTarget) {
  Rng rng(8);
  for (const auto& s : kShapes) {
    const Inputs inputs = make_inputs(s, 20, rng);
    const auto play = [&](Device& device, RecurrenceState& state) {
      const Inputs in = on(device, inputs);
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

// Spans of several sequences in one call, one of them with two, give what each gives in a call of its own;
// `keep` receives the state after a span.
TEST(Recurrence, SpansEqualCallsOfTheirOwn) {
  Rng rng(11);
  for (Device* device : cpu_and_reference()) {
    for (const auto& s : kShapes) {
      const Inputs in = on(*device, make_inputs(s, 20, rng));
      // Sequence 0 has accepted entries that are not in S yet; sequence 1 gets drafts; 2 starts.
      std::vector<RecurrenceState> together(3), alone(3);
      for (auto* states : {&together, &alone}) {
        for (auto& state : *states) state = make_recurrence_state(*device, s);
        try_rows(s, in, 0, 3, (*states)[0]);
        recurrence_commit((*states)[0], 2);
        step(s, in, 3, 5, (*states)[1]);
      }
      RecurrenceState kept;
      const RecurrenceSpan spans[] = {
          {.state = &together[0], .begin = 0, .count = 4, .keep = &kept},
          {.state = &together[0], .begin = 4, .count = 3},
          {.state = &together[1], .begin = 7, .count = 5, .draft = true},
          {.state = &together[2], .begin = 12, .count = 1},
          {.state = &together[1], .begin = 13, .count = 7, .draft = true},
      };
      const Tensor out = run_spans(s, in, spans);
      const auto what = name(s) + " on " + device->name();
      std::vector<Tensor> parts = {step(s, in, 0, 4, alone[0])};
      const RecurrenceState between = alone[0];
      parts.push_back(step(s, in, 4, 7, alone[0]));
      parts.push_back(try_rows(s, in, 7, 12, alone[1]));
      parts.push_back(step(s, in, 12, 13, alone[2]));
      parts.push_back(try_rows(s, in, 13, 20, alone[1]));
      for (auto* states : {&together, &alone}) {
        recurrence_commit((*states)[1], 9);
        recurrence_fold(s, (*states)[1]);
      }
      expect_same_bits(out, concat_rows(parts), what);
      expect_same_state(kept, between, what + " kept");
      for (size_t i = 0; i < 3; i++) expect_same_state(together[i], alone[i], fmt::format("{} {}", what, i));
    }
  }
}

// Pieces of random sizes; before each, drafts of other tokens, all rejected, and then drafts of the true
// tokens, of which each number from 0 to all is kept in turn.
TEST(Recurrence, PiecesAndRejectedDraftsGiveTheSameBits) {
  Rng rng(12);
  constexpr int kTokens = 300;
  Device& cpu = cpu_device(3);
  std::mt19937 random(5);
  for (const auto& s : kShapes) {
    const Inputs in = on(cpu, make_inputs(s, kTokens, rng)),
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
    for (const RecurrenceShape& s : kShapes) {
      if (s.channels == 0) continue;
      const Inputs in = on(*device, make_inputs(s, 20, rng));
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
    const Inputs in = on(cpu_device(), make_inputs(s, 2, rng));
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
  const auto s = kShapes[0];
  const Inputs in = on(cpu_device(), make_inputs(s, 12, rng));
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
  const auto s = kShapes[0];
  const Inputs in = on(cpu_device(), make_inputs(s, 20, rng));
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
  const auto s = kShapes[0];
  Device& cpu = cpu_device();
  Inputs in = on(cpu, make_inputs(s, 2, rng));
  auto state = make_recurrence_state(cpu, s), other = make_recurrence_state(cpu, kShapes[1]);
  EXPECT_THROW(step(s, in, 0, 2, other), std::invalid_argument);
  in.b = cpu.zeros({2, 3}, Dtype::f32);
  EXPECT_THROW(step(s, in, 0, 2, state), std::invalid_argument);
}

}  // namespace
}  // namespace anabranch::ops
