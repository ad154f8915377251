// Linear recurrences of every rule and short convolutions, and what they must do on any device.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ops/elementwise.h"
#include "ops/recurrence.h"
#include "ops/testing.h"

namespace anabranch::ops {

using Rule = RecurrenceRule;
inline constexpr Rule kMamba2{.delta = false,
                              .unit_keys = false,
                              .beta = Rule::Beta::step,
                              .step_min = 0.01f,
                              .step_max = 1.5f,
                              .conv_bias = true,
                              .skip = true,
                              .norm = Rule::Norm::after_gate,
                              .norm_group = 96};
inline constexpr Rule kLightning{.delta = false,
                                 .unit_keys = false,
                                 .beta = Rule::Beta::one,
                                 .decay = Rule::Decay::constant,
                                 .norm_group = 120};

// Mamba2 with a group of several heads, with norms before the gate and without; lightning attention without a
// convolution; OLMo's Gated DeltaNet; both forms of KDA; parts of these together; and short convolutions.
inline std::vector<RecurrenceShape> all_shapes() {
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
inline const std::vector<RecurrenceShape> kRecurrenceShapes = all_shapes();

inline std::string name(const RecurrenceShape& s) {
  const int kind = static_cast<int>(&s - kRecurrenceShapes.data());
  return fmt::format("kind {}: {} key heads of {}, {} value heads of {}", kind, s.key_heads, s.key_dim,
                     s.value_heads, s.value_dim);
}

struct RecurrenceCase {
  Tensor qkv, z, b, a;  // of a short convolution only qkv: its input
  RecurrenceWeights weights;
};

inline RecurrenceCase make_inputs(const RecurrenceShape& s, int tokens, Rng& rng) {
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

inline RecurrenceCase on(Device& device, const RecurrenceCase& in) {
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

inline Tensor run_spans(const RecurrenceShape& s, const RecurrenceCase& in,
                        std::span<const RecurrenceSpan> spans) {
  if (s.channels == 0) return recurrence_plain({in.qkv, in.z, in.b, in.a}, s, in.weights, spans);
  return short_conv_plain(in.qkv, s, {in.weights.conv_weight, in.weights.conv_bias}, spans);
}

// The mixer for rows [begin, end) of the inputs as one span of them alone.
inline Tensor mix(const RecurrenceShape& s, const RecurrenceCase& in, int begin, int end,
                  RecurrenceSpan span) {
  const auto rows = [&](const Tensor& x) { return x.slice_rows(begin, end); };
  const RecurrenceCase part{rows(in.qkv), rows(in.z), rows(in.b), rows(in.a), in.weights};
  span.count = end - begin;
  return run_spans(s, part, std::span(&span, 1));
}

inline Tensor step(const RecurrenceShape& s, const RecurrenceCase& in, int begin, int end,
                   RecurrenceState& state) {
  return mix(s, in, begin, end, {.state = &state});
}

// As drafts.
inline Tensor try_rows(const RecurrenceShape& s, const RecurrenceCase& in, int begin, int end,
                       RecurrenceState& state) {
  return mix(s, in, begin, end, {.state = &state, .draft = true});
}

inline Tensor run(const RecurrenceShape& s, const RecurrenceCase& in, const std::vector<int>& chunks,
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

inline void expect_recurrence_like_reference(Device& device, const RecurrenceShape& s) {
  Rng rng(1);
  const RecurrenceCase in = make_inputs(s, 40, rng);
  auto ours_state = make_recurrence_state(device, s),
       theirs_state = make_recurrence_state(reference_device(), s);
  const Tensor ours = run(s, on(device, in), {25, 15}, ours_state);
  const Tensor theirs = run(s, on(reference_device(), in), {40}, theirs_state);
  // The output norm brings everything to size 1; errors of the recurrence stay near 1e-6 of that.
  expect_close(ours, theirs, 5e-4, name(s));
  expect_close(ours_state.s, theirs_state.s, 1e-5, name(s) + " state");
  expect_close(ours_state.conv, theirs_state.conv, 0, name(s) + " conv rows");
}

inline void expect_recurrence_of_any_chunks(Device& device, const RecurrenceShape& s, int tokens,
                                            const std::vector<std::vector<int>>& all_chunks) {
  Rng rng(2);
  const RecurrenceCase in = on(device, make_inputs(s, tokens, rng));
  auto whole_state = make_recurrence_state(device, s);
  const Tensor whole = run(s, in, {tokens}, whole_state);
  for (const auto& chunks : all_chunks) {
    auto state = make_recurrence_state(device, s);
    const auto what = fmt::format("{} first chunk {}", name(s), chunks[0]);
    expect_same_bits(run(s, in, chunks, state), whole, what);
    expect_same_bits(state.s, whole_state.s, what + " state");
    expect_same_bits(state.conv, whole_state.conv, what + " conv rows");
  }
}

inline void expect_same_state(const RecurrenceState& a, const RecurrenceState& b, const std::string& what) {
  expect_same_bits(a.s, b.s, what + " state");
  expect_same_bits(a.conv, b.conv, what + " conv rows");
}

inline void expect_recurrence_drafts(Device& device, const RecurrenceShape& s) {
  Rng rng(6);
  const RecurrenceCase in = on(device, make_inputs(s, 60, rng));
  auto plain = make_recurrence_state(device, s), tried = make_recurrence_state(device, s);
  expect_same_bits(step(s, in, 0, 5, plain), step(s, in, 0, 5, tried), "before");
  int at = 5;
  // Rounds: `rows` as drafts in `launches`, of which `keep` turn out real.
  const struct {
    int rows, launches, keep;
  } rounds[] = {{1, 1, 1},   {4, 1, 0},   {4, 1, 2}, {3, 1, 3}, {6, 3, 4},
                {16, 1, 16}, {16, 16, 7}, {2, 1, 0}, {5, 5, 1}};
  for (const auto& r : rounds) {
    const auto what = fmt::format("{}: {} rows in {} launches, {} kept", name(s), r.rows, r.launches, r.keep);
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

// Spans of several sequences in one call, one of them with two, give what each gives in a call of its own;
// `keep` receives the state after a span.
inline void expect_recurrence_spans(Device& device, const RecurrenceShape& s) {
  Rng rng(11);
  const RecurrenceCase in = on(device, make_inputs(s, 20, rng));
  // Sequence 0 has accepted entries that are not in S yet; sequence 1 gets drafts; 2 starts.
  std::vector<RecurrenceState> together(3), alone(3);
  for (auto* states : {&together, &alone}) {
    for (auto& state : *states) state = make_recurrence_state(device, s);
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
  const auto what = name(s) + " on " + device.name();
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

}  // namespace anabranch::ops
