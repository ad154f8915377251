#include "ops/gated_delta.h"

#include <utility>
#include <vector>

#include "ops/arguments.h"
#include "ops/table.h"

namespace anabranch::ops {
namespace {

GatedDeltaWindow make_window(Device& device, const GatedDeltaShape& s) {
  const auto zeros = [&](int width) { return device.zeros({kMaxDraftTokens, width}, Dtype::f32); };
  return {zeros(s.key_heads * s.key_dim), zeros(s.value_heads * s.value_dim), zeros(s.value_heads),
          zeros(s.conv_channels())};
}

void check_state(const char* op, const GatedDeltaShape& shape, const GatedDeltaState& state) {
  require_shape(op, "the state", state.s, {shape.value_heads, shape.key_dim, shape.value_dim});
  require_shape(op, "the convolution state", state.conv, {shape.conv_kernel - 1, shape.conv_channels()});
}

void check_inputs(const char* op, const GatedDeltaInputs& in, const GatedDeltaShape& shape,
                  const GatedDeltaWeights& weights) {
  require(shape.key_heads > 0 && shape.value_heads > 0 && shape.value_heads % shape.key_heads == 0 &&
              shape.conv_kernel > 0 && shape.conv_kernel <= kMaxConvKernel,
          op, "{} value heads do not divide over {} key heads, or a kernel of {} taps.", shape.value_heads,
          shape.key_heads, shape.conv_kernel);
  require_f32(op, "qkv", in.qkv, 2);
  const int tokens = in.qkv.shape(0), heads = shape.value_heads, channels = shape.conv_channels();
  require(tokens > 0, op, "there are no tokens.");
  require_shape(op, "qkv", in.qkv, {tokens, channels});
  require_shape(op, "z", in.z, {tokens, heads * shape.value_dim});
  require_shape(op, "b", in.b, {tokens, heads});
  require_shape(op, "a", in.a, {tokens, heads});
  require_shape(op, "conv_weight", weights.conv_weight, {shape.conv_kernel, channels});
  require_shape(op, "a_log", weights.a_log, {heads});
  require_shape(op, "dt_bias", weights.dt_bias, {heads});
  require_shape(op, "norm_weight", weights.norm_weight, {shape.value_dim});
}

// Creates the window if it does not exist yet.
void check_draft(const char* op, const GatedDeltaShape& shape, GatedDeltaState& state, int tokens) {
  if (!state.window) state.window = make_window(state.s.device(), shape);
  const GatedDeltaWindow& window = *state.window;
  require(window.open + tokens <= kMaxDraftTokens, op, "{} tokens and {} more are over the limit of {}.",
          window.open, tokens, kMaxDraftTokens);
}

// Plans which window entries are applied to S before a span's rows: accepted entries, which then become part
// of S, or entries of draft tokens.
void plan_replay(GatedDeltaWindow& window, DeltaRun& run) {
  run.fold = window.accepted > 0;
  run.replay = run.fold ? std::exchange(window.accepted, 0) : window.open;
}

void check_span(const char* op, const GatedDeltaShape& shape, const GatedDeltaSpan& span) {
  GatedDeltaState& state = *span.state;
  check_state(op, shape, state);
  if (span.draft) check_draft(op, shape, state, span.count);
  require(span.draft || !state.window || state.window->open == 0, op, "there are draft tokens.");
}

// Advances the window's counters (open, accepted) past the span.
DeltaRun plan_run(const GatedDeltaSpan& span) {
  GatedDeltaState& state = *span.state;
  DeltaRun run{&state, span.begin, span.count};
  run.keep = span.keep;
  if (!state.window) return run;
  GatedDeltaWindow& window = *state.window;
  plan_replay(window, run);
  if (!span.draft) return run;
  run.draft = true;
  run.entry = window.open;
  window.open += span.count;
  return run;
}

MatmulInput run_spans(const GatedDeltaInputs& in, const GatedDeltaShape& shape,
                      const GatedDeltaWeights& weights, std::span<const GatedDeltaSpan> spans, bool plain) {
  const char* op = "gated_delta";
  check_inputs(op, in, shape, weights);
  int covered = 0;
  for (const GatedDeltaSpan& span : spans) {
    require(span.begin == covered && span.count > 0 && !(span.keep && span.draft), op,
            "a span begins at row {}, not {}, or is to be kept with draft tokens.", span.begin, covered);
    covered += span.count;
  }
  require(!spans.empty() && covered == in.qkv.shape(0), op, "the spans cover {} of {} rows.", covered,
          in.qkv.shape(0));
  std::vector<DeltaRun> runs;
  runs.reserve(spans.size());
  for (const GatedDeltaSpan& span : spans) {  // an earlier span of the same state counts
    check_span(op, shape, span);
    runs.push_back(plan_run(span));
  }
  return in.qkv.device().ops().gated_delta(in, shape, weights, runs, plain);
}

}  // namespace

GatedDeltaState make_gated_delta_state(Device& device, const GatedDeltaShape& shape) {
  return {device.zeros({shape.value_heads, shape.key_dim, shape.value_dim}, Dtype::f32),
          device.zeros({shape.conv_kernel - 1, shape.conv_channels()}, Dtype::f32),
          {}};
}

MatmulInput gated_delta(const GatedDeltaInputs& in, const GatedDeltaShape& shape,
                        const GatedDeltaWeights& weights, std::span<const GatedDeltaSpan> spans) {
  return run_spans(in, shape, weights, spans, false);
}

Tensor gated_delta_plain(const GatedDeltaInputs& in, const GatedDeltaShape& shape,
                         const GatedDeltaWeights& weights, std::span<const GatedDeltaSpan> spans) {
  return run_spans(in, shape, weights, spans, true).values;
}

void gated_delta_commit(GatedDeltaState& state, int count) {
  const int open = state.window ? state.window->open : 0;
  require(count >= 0 && count <= open, "gated_delta_commit", "{} of {} draft tokens cannot stay.", count,
          open);
  if (open == 0) return;  // nothing was applied: entries accepted earlier stay
  state.window->accepted = count;
  state.window->open = 0;
}

void gated_delta_fold(const GatedDeltaShape& shape, GatedDeltaState& state) {
  check_state("gated_delta_fold", shape, state);
  if (!state.window) return;
  require(state.window->open == 0, "gated_delta_fold", "there are draft tokens.");
  if (state.window->accepted == 0) return;
  DeltaRun run{&state};
  plan_replay(*state.window, run);
  state.s.device().ops().gated_delta_fold(shape, run);
}

}  // namespace anabranch::ops
