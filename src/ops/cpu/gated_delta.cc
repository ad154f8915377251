#include "ops/cpu/gated_delta.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/thread_pool.h"
#include "ops/cpu/array.h"
#include "ops/cpu/kernels.h"

namespace anabranch::ops::cpu {
namespace {

static_assert(kMaxTrial == kMaxTrialRows && kMaxConvKernel == kMaxConvTaps);

void run_heads(const GatedDeltaArgs& args) {
  const CpuKernels& kernel = kernels();
  const auto body = [&](int64_t begin, int64_t end) {
    auto* scratch = static_cast<float*>(
        thread_scratch(0, static_cast<size_t>(kernel.delta_scratch_floats(args)) * sizeof(float)));
    for (int64_t h = begin; h < end; h++) kernel.delta_head(args, h, scratch);
  };
  const int64_t work = (args.tokens + args.replay_count) * args.value_heads * args.key_dim * args.value_dim;
  work < (32 << 10) ? body(0, args.key_heads) : parallel_for(args.key_heads, 1, body);
}

// conv = the last kernel - 1 rows of (conv, `count` rows), row i at `row(i)`.
template <class Row>
void advance_conv(const GatedDeltaArgs& args, mx::array& conv, int64_t count, const Row& row) {
  const int64_t keep = args.conv_kernel - 1, c = args.channels, from_old = std::max<int64_t>(0, keep - count);
  mx::array next = is_unshared(conv) ? conv : make_array(conv.shape(), mx::float32);
  float* to = next.data<float>();
  std::memmove(to, conv.data<float>() + (keep - from_old) * c, static_cast<size_t>(from_old * c) * 4);
  for (int64_t i = from_old; i < keep; i++)
    std::memcpy(to + i * c, row(count - keep + i), static_cast<size_t>(c) * 4);
  conv = std::move(next);
}

// A window that a copy of the state shares is left as it is.
void own(mx::array& x) {
  if (is_unshared(x)) return;
  mx::array copy = make_array(x.shape(), mx::float32);
  std::memcpy(copy.data<char>(), read_f32(x, "gated_delta"), x.nbytes());
  x = std::move(copy);
}

GatedDeltaArgs make_args(const GatedDeltaShape& shape) {
  GatedDeltaArgs args;
  args.key_heads = shape.key_heads;
  args.value_heads = shape.value_heads;
  args.key_dim = shape.key_dim;
  args.value_dim = shape.value_dim;
  args.conv_kernel = shape.conv_kernel;
  args.channels = shape.conv_channels();
  return args;
}

using Chain = std::array<int, kMaxTrial>;

// Accepted entries go into conv at once and into S on its way (args.fold); s is where S is written to.
void take_window(GatedDeltaState& state, GatedDeltaArgs& args, Chain& chain) {
  GatedDeltaWindow& w = *state.window;
  args.window = {w.k.data<float>(), w.delta.data<float>(), w.decay.data<float>(), w.rows.data<float>()};
  args.fold = !w.accepted.empty();
  args.replay = chain.data();
  args.replay_count = args.fold ? static_cast<int64_t>(w.accepted.size()) : w.open;
  if (args.fold) {
    std::copy(w.accepted.begin(), w.accepted.end(), chain.begin());
    advance_conv(args, state.conv, args.replay_count,
                 [&](int64_t i) { return args.window.rows + chain[i] * args.channels; });
  } else {
    std::iota(chain.begin(), chain.end(), 0);
  }
}

mx::array run(const mx::array& qkv, const mx::array& z, const mx::array& b, const mx::array& a,
              const GatedDeltaWeights& weights, GatedDeltaState& state, GatedDeltaArgs args) {
  mx::array out = make_array(z.shape(), mx::float32);
  args.tokens = qkv.shape(0);
  args.qkv = read_f32(qkv, "gated_delta");
  args.z = read_f32(z, "gated_delta");
  args.b = read_f32(b, "gated_delta");
  args.a = read_f32(a, "gated_delta");
  args.conv_weight = read_f32(weights.conv_weight, "gated_delta");
  args.a_log = read_f32(weights.a_log, "gated_delta");
  args.dt_bias = read_f32(weights.dt_bias, "gated_delta");
  args.norm_weight = read_f32(weights.norm_weight, "gated_delta");
  args.eps = weights.eps;
  args.conv_state = read_f32(state.conv, "gated_delta");
  args.s_in = read_f32(state.s, "gated_delta");
  // A state that a snapshot shares is left as it is: the new one goes elsewhere.
  const bool written = !args.trial || args.fold;
  mx::array s = !written || is_unshared(state.s) ? state.s : make_array(state.s.shape(), mx::float32);
  args.s_out = s.data<float>();
  args.y = out.data<float>();
  run_heads(args);
  state.s = std::move(s);
  return out;
}

}  // namespace

mx::array gated_delta(const mx::array& qkv, const mx::array& z, const mx::array& b, const mx::array& a,
                      const GatedDeltaShape& shape, const GatedDeltaWeights& weights,
                      GatedDeltaState& state) {
  GatedDeltaArgs args = make_args(shape);
  Chain chain;
  if (state.window && !state.window->accepted.empty()) take_window(state, args, chain);
  mx::array out = run(qkv, z, b, a, weights, state, args);
  if (state.window) state.window->accepted.clear();
  const float* rows = read_f32(qkv, "gated_delta");
  advance_conv(args, state.conv, qkv.shape(0), [&](int64_t i) { return rows + i * args.channels; });
  return out;
}

mx::array gated_delta_trial(const mx::array& qkv, const mx::array& z, const mx::array& b, const mx::array& a,
                            const GatedDeltaShape& shape, const GatedDeltaWeights& weights,
                            GatedDeltaState& state, std::span<const int> parents) {
  GatedDeltaArgs args = make_args(shape);
  GatedDeltaWindow& w = *state.window;
  for (auto* x : {&w.k, &w.delta, &w.decay, &w.rows}) own(*x);
  Chain chain;
  take_window(state, args, chain);
  args.trial = true;
  args.entry = w.open;
  args.parents = parents.empty() ? nullptr : parents.data();
  return run(qkv, z, b, a, weights, state, args);
}

void gated_delta_settle(const GatedDeltaShape& shape, GatedDeltaState& state) {
  GatedDeltaArgs args = make_args(shape);
  Chain chain;
  take_window(state, args, chain);
  args.s_in = read_f32(state.s, "gated_delta");
  mx::array s = is_unshared(state.s) ? state.s : make_array(state.s.shape(), mx::float32);
  args.s_out = s.data<float>();
  run_heads(args);
  state.s = std::move(s);
}

}  // namespace anabranch::ops::cpu
