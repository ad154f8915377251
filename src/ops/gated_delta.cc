#include "ops/gated_delta.h"

#include "ops/arguments.h"
#include "ops/cpu/gated_delta.h"
#include "ops/cuda/gated_delta.h"
#include "ops/elementwise.h"
#include "ops/reference/gated_delta.h"

namespace anabranch::ops {
namespace {

mx::array zeros(mx::Shape shape) {
  return ops::zeros(std::move(shape), mx::float32);
}

GatedDeltaWindow make_window(const GatedDeltaShape& s) {
  return {zeros({kMaxTrial, s.key_heads * s.key_dim}), zeros({kMaxTrial, s.value_heads * s.value_dim}),
          zeros({kMaxTrial, s.value_heads}), zeros({kMaxTrial, s.conv_channels()})};
}

void check_state(const char* op, const GatedDeltaShape& shape, const GatedDeltaState& state) {
  require_shape(op, "the state", state.s, {shape.value_heads, shape.key_dim, shape.value_dim});
  require_shape(op, "the convolution state", state.conv, {shape.conv_kernel - 1, shape.conv_channels()});
}

void check(const char* op, const mx::array& qkv, const mx::array& z, const mx::array& b, const mx::array& a,
           const GatedDeltaShape& shape, const GatedDeltaWeights& weights, const GatedDeltaState& state) {
  require(shape.key_heads > 0 && shape.value_heads > 0 && shape.value_heads % shape.key_heads == 0 &&
              shape.conv_kernel > 0 && shape.conv_kernel <= kMaxConvKernel,
          op, "{} value heads do not divide over {} key heads, or a kernel of {} taps.", shape.value_heads,
          shape.key_heads, shape.conv_kernel);
  require_f32(op, "qkv", qkv, 2);
  const int tokens = qkv.shape(0), heads = shape.value_heads, channels = shape.conv_channels();
  require(tokens > 0, op, "there are no tokens.");
  require_shape(op, "qkv", qkv, {tokens, channels});
  require_shape(op, "z", z, {tokens, heads * shape.value_dim});
  require_shape(op, "b", b, {tokens, heads});
  require_shape(op, "a", a, {tokens, heads});
  require_shape(op, "conv_weight", weights.conv_weight, {shape.conv_kernel, channels});
  require_shape(op, "a_log", weights.a_log, {heads});
  require_shape(op, "dt_bias", weights.dt_bias, {heads});
  require_shape(op, "norm_weight", weights.norm_weight, {shape.value_dim});
  check_state(op, shape, state);
}

// Makes the window if there is none yet.
void check_trial(const char* op, const GatedDeltaShape& shape, GatedDeltaState& state, int tokens,
                 std::span<const int> parents) {
  if (!state.window) state.window = make_window(shape);
  const GatedDeltaWindow& window = *state.window;
  require(window.open + tokens <= kMaxTrial, op, "{} tokens and {} more are over the limit of {}.",
          window.open, tokens, kMaxTrial);
  require(!window.tree, op, "a tree is on trial already.");
  require(parents.empty() || (parents.size() == static_cast<size_t>(tokens) && is_preorder(parents)), op,
          "the {} parents of {} rows are not in preorder.", parents.size(), tokens);
  require(parents.empty() || backend() != Backend::cuda, op, "trees cannot be on trial on CUDA.");
}

}  // namespace

GatedDeltaState make_gated_delta_state(const GatedDeltaShape& shape) {
  return {zeros({shape.value_heads, shape.key_dim, shape.value_dim}),
          zeros({shape.conv_kernel - 1, shape.conv_channels()}),
          {}};
}

mx::array gated_delta(const mx::array& qkv, const mx::array& z, const mx::array& b, const mx::array& a,
                      const GatedDeltaShape& shape, const GatedDeltaWeights& weights,
                      GatedDeltaState& state) {
  const char* op = "gated_delta";
  check(op, qkv, z, b, a, shape, weights, state);
  require(!state.window || state.window->open == 0, op, "tokens are on trial.");
  if (backend() == Backend::cuda) return cuda::gated_delta({qkv, z, b, a}, shape, weights, state, false);
  return backend() == Backend::cpu ? cpu::gated_delta(qkv, z, b, a, shape, weights, state)
                                   : reference::gated_delta(qkv, z, b, a, shape, weights, state);
}

mx::array gated_delta_trial(const mx::array& qkv, const mx::array& z, const mx::array& b, const mx::array& a,
                            const GatedDeltaShape& shape, const GatedDeltaWeights& weights,
                            GatedDeltaState& state, std::span<const int> parents) {
  const char* op = "gated_delta_trial";
  check(op, qkv, z, b, a, shape, weights, state);
  check_trial(op, shape, state, qkv.shape(0), parents);
  if (backend() == Backend::cuda) return cuda::gated_delta({qkv, z, b, a}, shape, weights, state, true);
  GatedDeltaWindow& window = *state.window;
  mx::array out = backend() == Backend::cpu
                      ? cpu::gated_delta_trial(qkv, z, b, a, shape, weights, state, parents)
                      : reference::gated_delta_trial(qkv, z, b, a, shape, weights, state, parents);
  window.accepted.clear();
  window.open += qkv.shape(0);
  for (size_t i = 0; i < parents.size(); i++) window.tree |= parents[i] != static_cast<int>(i) - 1;
  return out;
}

mx::array gated_delta_rows(const GatedDeltaInputs& in, const GatedDeltaShape& shape,
                           const GatedDeltaWeights& weights, std::span<const GatedDeltaSpan> spans) {
  const char* op = "gated_delta_rows";
  int covered = 0;
  for (const GatedDeltaSpan& span : spans) {
    require(span.begin == covered && span.count > 0 && !(span.keep && span.trial), op,
            "a span begins at row {}, not {}, or is to be kept while on trial.", span.begin, covered);
    covered += span.count;
  }
  require(!spans.empty() && covered == in.qkv.shape(0), op, "the spans cover {} of {} rows.", covered,
          in.qkv.shape(0));
  if (backend() == Backend::cuda) {
    for (const GatedDeltaSpan& span : spans) {
      check(op, in.qkv, in.z, in.b, in.a, shape, weights, *span.state);
      if (span.trial) check_trial(op, shape, *span.state, span.count, span.parents);
      require(span.trial || !span.state->window || span.state->window->open == 0, op, "tokens are on trial.");
    }
    return cuda::gated_delta_rows(in, shape, weights, spans);
  }
  std::vector<mx::array> parts;
  for (const GatedDeltaSpan& span : spans) {
    const auto rows = [&](const mx::array& x) { return slice_rows(x, span.begin, span.begin + span.count); };
    const auto qkv = rows(in.qkv), z = rows(in.z), b = rows(in.b), a = rows(in.a);
    parts.push_back(span.trial ? gated_delta_trial(qkv, z, b, a, shape, weights, *span.state, span.parents)
                               : gated_delta(qkv, z, b, a, shape, weights, *span.state));
    if (!span.keep) continue;
    gated_delta_settle(shape, *span.state);
    *span.keep = {span.state->s, span.state->conv, {}};
  }
  return concat_rows(parts);
}

void gated_delta_commit(GatedDeltaState& state, std::span<const int> path) {
  if (!state.window || state.window->open == 0) {  // nothing was applied: what was accepted before stays
    require(path.empty(), "gated_delta_commit", "no tokens are on trial.");
    return;
  }
  GatedDeltaWindow& window = *state.window;
  for (size_t i = 0; i < path.size(); i++)
    require(path[i] < window.open && path[i] > (i == 0 ? -1 : path[i - 1]), "gated_delta_commit",
            "entry {} of {} does not continue the path.", path[i], window.open);
  window.accepted.assign(path.begin(), path.end());
  window.open = 0;
  window.tree = false;
}

void gated_delta_settle(const GatedDeltaShape& shape, GatedDeltaState& state) {
  check_state("gated_delta_settle", shape, state);
  if (!state.window) return;
  require(state.window->open == 0, "gated_delta_settle", "tokens are on trial.");
  if (state.window->accepted.empty()) return;
  ANABRANCH_DISPATCH(gated_delta_settle(shape, state));
  state.window->accepted.clear();
}

bool is_preorder(std::span<const int> parents) {
  for (int i = 0; i < static_cast<int>(parents.size()); i++) {
    int at = i - 1;
    while (at >= 0 && at != parents[i]) at = parents[at];
    if (at != parents[i]) return false;
  }
  return true;
}

}  // namespace anabranch::ops
