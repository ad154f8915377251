#include "ops/recurrence.h"

#include <utility>
#include <vector>

#include "ops/arguments.h"
#include "ops/table.h"

namespace anabranch::ops {
namespace {

RecurrenceWindow make_window(Device& device, const RecurrenceShape& s) {
  const auto zeros = [&](int width) { return device.zeros({kMaxDraftTokens, width}, Dtype::f32); };
  return {zeros(s.key_heads * s.key_dim), zeros(s.value_heads * s.value_dim),
          zeros(s.value_heads * s.decay_dim()), zeros(s.conv_channels())};
}

void check_state(const char* op, const RecurrenceShape& shape, const RecurrenceState& state) {
  require_shape(op, "the state", state.s, {shape.value_heads, shape.key_dim, shape.value_dim});
  require_shape(op, "the convolution state", state.conv, {shape.conv_kernel - 1, shape.conv_channels()});
}

void check_optional(const char* op, const char* name, const std::optional<Tensor>& x, bool needed,
                    const Shape& shape) {
  require(x.has_value() || !needed, op, "{} is missing.", name);
  if (needed) require_shape(op, name, *x, shape);
}

void check_rule(const char* op, const RecurrenceShape& shape) {
  const RecurrenceRule& rule = shape.rule;
  const int outputs = shape.value_heads * shape.value_dim, group = rule.norm_group;
  require(!(rule.key_decay && rule.beta == RecurrenceRule::Beta::step), op,
          "a step is not for a decay of each key dimension.");
  require(group >= 0 && (group == 0 || outputs % group == 0), op, "{} outputs are not whole groups of {}.",
          outputs, group);
  require(rule.norm != RecurrenceRule::Norm::after_gate || group > 0, op,
          "a norm after the gate has no groups.");
}

void check_inputs(const char* op, const RecurrenceInputs& in, const RecurrenceShape& shape,
                  const RecurrenceWeights& weights) {
  require(shape.key_heads > 0 && shape.value_heads > 0 && shape.value_heads % shape.key_heads == 0 &&
              shape.conv_kernel > 0 && shape.conv_kernel <= kMaxConvKernel,
          op, "{} value heads do not divide over {} key heads, or a kernel of {} taps.", shape.value_heads,
          shape.key_heads, shape.conv_kernel);
  check_rule(op, shape);
  require_f32(op, "qkv", in.qkv, 2);
  const RecurrenceRule& rule = shape.rule;
  const int tokens = in.qkv.shape(0), heads = shape.value_heads, channels = shape.conv_channels();
  const int outputs = heads * shape.value_dim, decays = heads * shape.decay_dim();
  require(tokens > 0, op, "there are no tokens.");
  require_shape(op, "qkv", in.qkv, {tokens, channels});
  require_shape(op, "z", in.z, {tokens, outputs});
  check_optional(op, "b", in.b, rule.needs_b(), {tokens, heads});
  check_optional(op, "a", in.a, rule.needs_a(), {tokens, decays});
  require_shape(op, "conv_weight", weights.conv_weight, {shape.conv_kernel, channels});
  check_optional(op, "conv_bias", weights.conv_bias, rule.conv_bias, {channels});
  check_optional(op, "skip", weights.skip, rule.skip, {heads});
  require_shape(op, "a_log", weights.a_log, {heads});
  if (rule.needs_a()) require_shape(op, "dt_bias", weights.dt_bias, {decays});
  if (rule.norm != RecurrenceRule::Norm::none)
    require_shape(op, "norm_weight", weights.norm_weight, {rule.norm_group > 0 ? outputs : shape.value_dim});
}

// Creates the window if it does not exist yet.
void check_draft(const char* op, const RecurrenceShape& shape, RecurrenceState& state, int tokens) {
  if (!state.window) state.window = make_window(state.s.device(), shape);
  const RecurrenceWindow& window = *state.window;
  require(window.open + tokens <= kMaxDraftTokens, op, "{} tokens and {} more are over the limit of {}.",
          window.open, tokens, kMaxDraftTokens);
}

// Plans which window entries are applied to S before a span's rows: accepted entries, which then become part
// of S, or entries of draft tokens.
void plan_replay(RecurrenceWindow& window, RecurrenceRun& run) {
  run.fold = window.accepted > 0;
  run.replay = run.fold ? std::exchange(window.accepted, 0) : window.open;
}

void check_span(const char* op, const RecurrenceShape& shape, const RecurrenceSpan& span) {
  RecurrenceState& state = *span.state;
  check_state(op, shape, state);
  if (span.draft) check_draft(op, shape, state, span.count);
  require(span.draft || !state.window || state.window->open == 0, op, "there are draft tokens.");
}

// Advances the window's counters (open, accepted) past the span.
RecurrenceRun plan_run(const RecurrenceSpan& span) {
  RecurrenceState& state = *span.state;
  RecurrenceRun run{&state, span.begin, span.count};
  run.keep = span.keep;
  if (!state.window) return run;
  RecurrenceWindow& window = *state.window;
  plan_replay(window, run);
  if (!span.draft) return run;
  run.draft = true;
  run.entry = window.open;
  window.open += span.count;
  return run;
}

// Checks the spans and plans their runs; advances the windows' counters.
std::vector<RecurrenceRun> plan_runs(const char* op, const RecurrenceShape& shape, int rows,
                                     std::span<const RecurrenceSpan> spans) {
  int covered = 0;
  for (const RecurrenceSpan& span : spans) {
    require(span.begin == covered && span.count > 0 && !(span.keep && span.draft), op,
            "a span begins at row {}, not {}, or is to be kept with draft tokens.", span.begin, covered);
    covered += span.count;
  }
  require(!spans.empty() && covered == rows, op, "the spans cover {} of {} rows.", covered, rows);
  std::vector<RecurrenceRun> runs;
  runs.reserve(spans.size());
  for (const RecurrenceSpan& span : spans) {  // an earlier span of the same state counts
    check_span(op, shape, span);
    runs.push_back(plan_run(span));
  }
  return runs;
}

MatmulInput run_spans(const RecurrenceInputs& in, const RecurrenceShape& shape,
                      const RecurrenceWeights& weights, std::span<const RecurrenceSpan> spans, bool plain) {
  const char* op = "recurrence";
  check_inputs(op, in, shape, weights);
  const auto runs = plan_runs(op, shape, in.qkv.shape(0), spans);
  return in.qkv.device().ops().recurrence(in, shape, weights, runs, plain);
}

MatmulInput convolve_spans(const Tensor& in, const RecurrenceShape& shape, const ShortConvWeights& weights,
                           std::span<const RecurrenceSpan> spans, bool plain) {
  const char* op = "short_conv";
  const int channels = shape.channels;
  require(
      channels > 0 && shape.value_heads == 0 && shape.conv_kernel > 0 && shape.conv_kernel <= kMaxConvKernel,
      op, "{} channels, {} heads and {} taps are no short convolution.", channels, shape.value_heads,
      shape.conv_kernel);
  require_f32(op, "in", in, 2);
  require_shape(op, "in", in, {in.shape(0), weights.gated ? 3 * channels : channels});
  require_shape(op, "weight", weights.weight, {shape.conv_kernel, channels});
  if (weights.bias) require_shape(op, "bias", *weights.bias, {channels});
  return in.device().ops().short_conv(in, shape, weights, plan_runs(op, shape, in.shape(0), spans), plain);
}

}  // namespace

RecurrenceState make_recurrence_state(Device& device, const RecurrenceShape& shape) {
  return {device.zeros({shape.value_heads, shape.key_dim, shape.value_dim}, Dtype::f32),
          device.zeros({shape.conv_kernel - 1, shape.conv_channels()}, Dtype::f32),
          {}};
}

MatmulInput recurrence(const RecurrenceInputs& in, const RecurrenceShape& shape,
                       const RecurrenceWeights& weights, std::span<const RecurrenceSpan> spans) {
  return run_spans(in, shape, weights, spans, false);
}

Tensor recurrence_plain(const RecurrenceInputs& in, const RecurrenceShape& shape,
                        const RecurrenceWeights& weights, std::span<const RecurrenceSpan> spans) {
  return run_spans(in, shape, weights, spans, true).values;
}

MatmulInput short_conv(const Tensor& in, const RecurrenceShape& shape, const ShortConvWeights& weights,
                       std::span<const RecurrenceSpan> spans) {
  return convolve_spans(in, shape, weights, spans, false);
}

Tensor short_conv_plain(const Tensor& in, const RecurrenceShape& shape, const ShortConvWeights& weights,
                        std::span<const RecurrenceSpan> spans) {
  return convolve_spans(in, shape, weights, spans, true).values;
}

void recurrence_commit(RecurrenceState& state, int count) {
  const int open = state.window ? state.window->open : 0;
  require(count >= 0 && count <= open, "recurrence_commit", "{} of {} draft tokens cannot stay.", count,
          open);
  if (open == 0) return;  // nothing was applied: entries accepted earlier stay
  state.window->accepted = count;
  state.window->open = 0;
}

void recurrence_fold(const RecurrenceShape& shape, RecurrenceState& state) {
  check_state("recurrence_fold", shape, state);
  if (!state.window) return;
  require(state.window->open == 0, "recurrence_fold", "there are draft tokens.");
  if (state.window->accepted == 0) return;
  RecurrenceRun run{&state};
  plan_replay(*state.window, run);
  state.s.device().ops().recurrence_fold(shape, run);
}

}  // namespace anabranch::ops
