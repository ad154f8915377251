#include "ops/reference/gated_delta.h"

#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <cmath>
#include <vector>

#include "ops/metal/gated_delta.h"
#include "ops/reference/device.h"

namespace anabranch::ops::reference {
namespace {

// The mixer's tensors as MLX arrays: the weights, the projections of some rows, and a sequence's memory.
struct Weights {
  mx::array conv, a_log, dt_bias, norm;
  float eps;
};
struct Rows {
  mx::array qkv, z, b, a;
};
struct Memory {
  mx::array s, conv;
};

Rows rows_of(const GatedDeltaInputs& in, int begin, int end) {
  const auto rows = [&](const Tensor& x) { return as_mlx(x.slice_rows(begin, end)); };
  return {rows(in.qkv), rows(in.z), rows(in.b), rows(in.a)};
}

Memory memory_of(const GatedDeltaState& state) {
  return {as_mlx(state.s), as_mlx(state.conv)};
}

mx::array slice_rows(const mx::array& x, int begin, int end) {
  mx::Shape start(x.ndim(), 0), stop = x.shape();
  start[0] = begin;
  stop[0] = end;
  return mx::slice(x, start, stop);
}

mx::array silu(const mx::array& x) {
  return mx::multiply(x, mx::sigmoid(x));
}
mx::array softplus(const mx::array& x) {
  return mx::logaddexp(x, mx::array(0.0f));
}
mx::array l2_normalise(const mx::array& x) {
  return mx::multiply(x, mx::rsqrt(mx::add(mx::sum(mx::square(x), -1, true), mx::array(1e-6f))));
}

// silu(causal depthwise convolution) of rows [T, C], which follow `before` [kernel - 1, C].
mx::array convolve(const mx::array& before, const mx::array& rows, const mx::array& weight, int kernel) {
  const auto all = mx::concatenate({before, rows}, 0);
  const auto tap = [&](int j) {
    return mx::multiply(slice_rows(all, j, j + rows.shape(0)), slice_rows(weight, j, j + 1));
  };
  auto sum = tap(kernel - 1);
  for (int j = kernel - 2; j >= 0; j--) sum = mx::add(sum, tap(j));
  return silu(sum);
}

// Computes the recurrence's inputs from the rows of tokens; `conv` has the rows before them.
metal::DeltaTokens prepare(const Rows& rows, const GatedDeltaShape& s, const Weights& w,
                           const mx::array& conv) {
  const int tokens = rows.qkv.shape(0), keys = s.key_heads * s.key_dim;
  const auto x = convolve(conv, rows.qkv, w.conv, s.conv_kernel);
  const auto heads = [&](int begin, int end, int count, int dim) {
    return mx::reshape(mx::slice(x, {0, begin}, {tokens, end}), {tokens, count, dim});
  };
  const auto scale = mx::array(1.0f / std::sqrt(static_cast<float>(s.key_dim)));
  return {mx::multiply(l2_normalise(heads(0, keys, s.key_heads, s.key_dim)), scale),
          l2_normalise(heads(keys, 2 * keys, s.key_heads, s.key_dim)),
          heads(2 * keys, s.conv_channels(), s.value_heads, s.value_dim),
          mx::exp(mx::negative(mx::multiply(mx::exp(w.a_log), softplus(mx::add(rows.a, w.dt_bias))))),
          mx::sigmoid(rows.b)};
}

// y [T, Hv, Dv] normalised and gated, [T, Hv * Dv]
mx::array finish(const mx::array& y, const mx::array& z, const Weights& w, bool sigmoid_gate) {
  const auto mean = mx::mean(mx::square(y), -1, true);
  const auto normed = mx::multiply(mx::multiply(y, mx::rsqrt(mx::add(mean, mx::array(w.eps)))), w.norm);
  return mx::multiply(mx::reshape(normed, z.shape()), sigmoid_gate ? mx::sigmoid(z) : silu(z));
}

// One token's data for its update: k [Hk, Dk], delta [Hv, Dv], decay [Hv].
struct Entry {
  mx::array k, delta, decay;
};

// S = g S + k delta^T
mx::array updated(const mx::array& s, const Entry& e, int ratio) {
  const int heads = s.shape(0);
  const auto k = mx::expand_dims(mx::repeat(e.k, ratio, 0), 2);  // [Hv, Dk, 1]
  return mx::add(mx::multiply(s, mx::reshape(e.decay, {heads, 1, 1})),
                 mx::matmul(k, mx::expand_dims(e.delta, 1)));
}

Entry entry_of(const GatedDeltaWindow& w, const GatedDeltaShape& s, int i) {
  const auto row = [&](const Tensor& x, mx::Shape shape) {
    return mx::reshape(as_mlx(x.slice_rows(i, i + 1)), std::move(shape));
  };
  return {row(w.k, {s.key_heads, s.key_dim}), row(w.delta, {s.value_heads, s.value_dim}),
          row(w.decay, {s.value_heads})};
}

// The new conv state after more rows, in its own memory.
mx::array conv_after(const mx::array& conv, const mx::array& rows) {
  const auto all = mx::concatenate({conv, rows}, 0);
  return copy_rows(all, all.shape(0) - conv.shape(0), all.shape(0));
}
mx::array conv_after(const mx::array& conv, const DeltaRun& run) {
  if (run.replay == 0) return conv;
  return conv_after(conv, slice_rows(as_mlx(run.state->window->rows), 0, run.replay));
}

// The memory after the run's entries have been applied.
Memory replayed(const GatedDeltaShape& shape, const DeltaRun& run) {
  const Memory before = memory_of(*run.state);
  mx::array s = before.s;
  for (int i = 0; i < run.replay; i++)
    s = updated(s, entry_of(*run.state->window, shape, i), shape.value_heads / shape.key_heads);
  return {s, conv_after(before.conv, run)};
}

struct Applied {
  mx::array out;  // [T, Hv * Dv]
  std::vector<Entry> entries;
  mx::array s;  // after the tokens
};

// Applies tokens to `from`.
Applied apply(const Rows& rows, const GatedDeltaShape& s, const Weights& w, const Memory& from) {
  const int tokens = rows.qkv.shape(0), ratio = s.value_heads / s.key_heads;
  const auto [q, k, v, decay, beta] = prepare(rows, s, w, from.conv);
  Applied done{rows.z, {}, from.s};
  std::vector<mx::array> outputs;
  for (int t = 0; t < tokens; t++) {
    const auto at = [&](const mx::array& y) { return mx::take(y, t, 0); };
    const auto wide = [&](const mx::array& y) { return mx::expand_dims(mx::repeat(at(y), ratio, 0), 1); };
    const auto decayed = mx::multiply(done.s, mx::reshape(at(decay), {s.value_heads, 1, 1}));
    const auto read = mx::reshape(mx::matmul(wide(k), decayed), {s.value_heads, s.value_dim});  // k^T S
    const auto delta = mx::multiply(mx::expand_dims(at(beta), 1), mx::subtract(at(v), read));
    done.entries.push_back({at(k), delta, at(decay)});
    done.s = updated(done.s, done.entries.back(), ratio);
    outputs.push_back(mx::reshape(mx::matmul(wide(q), done.s), {1, s.value_heads, s.value_dim}));
  }
  done.out = finish(mx::concatenate(outputs, 0), rows.z, w, s.sigmoid_gate);
  return done;
}

// Stores the tokens' entries [T, ...] and rows in the window, from run.entry on.
void put_entries(const DeltaRun& run, const metal::DeltaEntries& entries, const mx::array& rows) {
  GatedDeltaWindow& w = *run.state->window;
  const auto put = [&](Tensor& to, const mx::array& from) {
    const int width = to.shape(1);
    to = from_mlx(to.device(),
                  mx::slice_update(as_mlx(to), mx::reshape(from, {run.count, width}), mx::Shape{run.entry, 0},
                                   mx::Shape{run.entry + run.count, width}));
  };
  put(w.k, entries.k);
  put(w.delta, entries.delta);
  put(w.decay, entries.decay);
  put(w.rows, rows);
}

// Sets the state's memory to `after`, and evaluates it and `out`: otherwise the graph would grow with every
// token.
void put_memory(GatedDeltaState& state, const Memory& after, std::vector<mx::array> out) {
  Device& device = state.s.device();
  state.s = from_mlx(device, after.s);
  state.conv = from_mlx(device, after.conv);
  out.insert(out.end(), {after.s, after.conv});
  if (state.window)
    for (const Tensor* x :
         {&state.window->k, &state.window->delta, &state.window->decay, &state.window->rows})
      out.push_back(as_mlx(*x));
  mx::eval(out);
}

// A run that computes the recurrence in one kernel.
mx::array run_with_kernel(const metal::Launcher& launcher, const Rows& rows, const GatedDeltaShape& shape,
                          const Weights& weights, const DeltaRun& run) {
  const Memory before = memory_of(*run.state);
  metal::DeltaEntries entries{mx::zeros({0}), mx::zeros({0}), mx::zeros({0})};
  if (run.replay > 0) {
    const GatedDeltaWindow& w = *run.state->window;
    const auto replay = [&](const Tensor& x) { return copy_rows(as_mlx(x), 0, run.replay); };
    entries = {replay(w.k), replay(w.delta), replay(w.decay)};
  }
  const auto conv = conv_after(before.conv, run);
  const auto tokens = prepare(rows, shape, weights, conv);
  const auto scanned = metal::delta_scan(launcher, shape, before.s, entries, tokens, run.fold, !run.draft);
  const auto out = finish(scanned.y, rows.z, weights, shape.sigmoid_gate);
  if (run.draft) {
    put_entries(run, {tokens.k, scanned.delta, tokens.decay}, rows.qkv);
    put_memory(*run.state, {scanned.s, run.fold ? conv : before.conv}, {out});
  } else {
    put_memory(*run.state, {scanned.s, conv_after(conv, rows.qkv)}, {out});
  }
  return out;
}

mx::array run_with_mlx(const Rows& rows, const GatedDeltaShape& shape, const Weights& weights,
                       const DeltaRun& run) {
  const Memory from = replayed(shape, run);
  const Applied done = apply(rows, shape, weights, from);
  if (run.draft) {
    std::vector<mx::array> k, delta, decay;
    for (const Entry& e : done.entries) {
      k.push_back(e.k);
      delta.push_back(e.delta);
      decay.push_back(e.decay);
    }
    put_entries(run, {mx::concatenate(k, 0), mx::concatenate(delta, 0), mx::concatenate(decay, 0)}, rows.qkv);
    put_memory(*run.state, run.fold ? from : memory_of(*run.state), {done.out});
  } else {
    put_memory(*run.state, {done.s, conv_after(from.conv, rows.qkv)}, {done.out});
  }
  return done.out;
}

}  // namespace

MatmulInput gated_delta(const GatedDeltaInputs& in, const GatedDeltaShape& shape,
                        const GatedDeltaWeights& weights, std::span<const DeltaRun> runs, bool) {
  ReferenceDevice& device = device_of(in.qkv);
  const Weights w = {as_mlx(weights.conv_weight), as_mlx(weights.a_log), as_mlx(weights.dt_bias),
                     as_mlx(weights.norm_weight), weights.eps};
  const bool kernel = device.launcher() && metal::has_delta_scan(shape);
  std::vector<mx::array> parts;
  for (const DeltaRun& run : runs) {
    const Rows rows = rows_of(in, run.begin, run.begin + run.count);
    parts.push_back(kernel ? run_with_kernel(device.launcher(), rows, shape, w, run)
                           : run_with_mlx(rows, shape, w, run));
    if (run.keep) *run.keep = {run.state->s, run.state->conv, {}};
  }
  return from_mlx(device, mx::concatenate(parts, 0));
}

void gated_delta_fold(const GatedDeltaShape& shape, const DeltaRun& run) {
  put_memory(*run.state, replayed(shape, run), {});
}

}  // namespace anabranch::ops::reference
