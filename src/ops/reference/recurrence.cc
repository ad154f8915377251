#include "ops/reference/recurrence.h"

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
  mx::array conv, a_log, dt_bias, norm, conv_bias, skip;  // zeros where the rule has no use for them
  float eps;
};
struct Rows {
  mx::array qkv, z, b, a;  // b and a: likewise
};
struct Memory {
  mx::array s, conv;
};

mx::array or_zero(const std::optional<Tensor>& x) {
  return x ? as_mlx(*x) : mx::array(0.0f);
}

Rows rows_of(const RecurrenceInputs& in, int begin, int end) {
  const auto rows = [&](const Tensor& x) { return as_mlx(x.slice_rows(begin, end)); };
  const auto some = [&](const std::optional<Tensor>& x) { return x ? rows(*x) : mx::array(0.0f); };
  return {rows(in.qkv), rows(in.z), some(in.b), some(in.a)};
}

Weights weights_of(const RecurrenceWeights& w, const RecurrenceRule& rule) {
  const auto zero = mx::array(0.0f);
  return {as_mlx(w.conv_weight),
          as_mlx(w.a_log),
          rule.needs_a() ? as_mlx(w.dt_bias) : zero,
          rule.norm != RecurrenceRule::Norm::none ? as_mlx(w.norm_weight) : zero,
          or_zero(w.conv_bias),
          or_zero(w.skip),
          w.eps};
}

Memory memory_of(const RecurrenceState& state) {
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

// The causal depthwise convolution of rows [T, C], which follow `before` [kernel - 1, C].
mx::array convolve(const mx::array& before, const mx::array& rows, const mx::array& weight, int kernel) {
  const auto all = mx::concatenate({before, rows}, 0);
  const auto tap = [&](int j) {
    return mx::multiply(slice_rows(all, j, j + rows.shape(0)), slice_rows(weight, j, j + 1));
  };
  auto sum = tap(kernel - 1);
  for (int j = kernel - 2; j >= 0; j--) sum = mx::add(sum, tap(j));
  return sum;
}

// beta [T, Hv], and the decays [T, Hv], or [T, Hv * Dk] with key_decay.
struct Gates {
  mx::array beta, decay;
};
Gates gates_of(const Rows& rows, const RecurrenceShape& s, const Weights& w) {
  using Beta = RecurrenceRule::Beta;
  using Decay = RecurrenceRule::Decay;
  const RecurrenceRule& rule = s.rule;
  const mx::Shape heads = {rows.qkv.shape(0), s.value_heads};
  const auto rates = mx::exp(w.a_log), rate = rule.key_decay ? mx::repeat(rates, s.key_dim, 0) : rates;
  const auto x = mx::add(rows.a, w.dt_bias);
  auto step = softplus(x);
  if (rule.beta == Beta::step) step = mx::clip(step, mx::array(rule.step_min), mx::array(rule.step_max));
  const auto power = rule.decay == Decay::softplus ? mx::negative(mx::multiply(rate, step))
                     : rule.decay == Decay::bounded
                         ? mx::multiply(mx::array(rule.bound), mx::sigmoid(mx::multiply(rate, x)))
                         : mx::negative(rate);
  const auto once = mx::sigmoid(rows.b);
  const auto beta = rule.beta == Beta::sigmoid    ? once
                    : rule.beta == Beta::sigmoid2 ? mx::multiply(mx::array(2.0f), once)
                    : rule.beta == Beta::step     ? step
                                                  : mx::array(1.0f);
  return {mx::broadcast_to(beta, heads),
          mx::broadcast_to(mx::exp(power), {heads[0], s.value_heads * s.decay_dim()})};
}

// Computes the recurrence's inputs from the rows of tokens; `conv` has the rows before them.
metal::DeltaTokens prepare(const Rows& rows, const RecurrenceShape& s, const Weights& w,
                           const mx::array& conv) {
  const int tokens = rows.qkv.shape(0), keys = s.key_heads * s.key_dim;
  const auto x = silu(mx::add(convolve(conv, rows.qkv, w.conv, s.conv_kernel), w.conv_bias));
  const auto heads = [&](int begin, int end, int count, int dim) {
    return mx::reshape(mx::slice(x, {0, begin}, {tokens, end}), {tokens, count, dim});
  };
  auto q = heads(0, keys, s.key_heads, s.key_dim), k = heads(keys, 2 * keys, s.key_heads, s.key_dim);
  if (s.rule.unit_keys) {
    q = mx::multiply(l2_normalise(q), mx::array(1.0f / std::sqrt(static_cast<float>(s.key_dim))));
    k = l2_normalise(k);
  }
  const auto gates = gates_of(rows, s, w);
  return {q, k, heads(2 * keys, s.conv_channels(), s.value_heads, s.value_dim), gates.decay, gates.beta};
}

// y [T, Hv, Dv] and the values v: skip connection, norm and gate -> [T, Hv * Dv]
mx::array finish(mx::array y, const mx::array& v, const mx::array& z, const RecurrenceShape& s,
                 const Weights& w) {
  const auto gate = s.sigmoid_gate ? mx::sigmoid(z) : silu(z);
  if (s.rule.skip) y = mx::add(y, mx::multiply(v, mx::reshape(w.skip, {s.value_heads, 1})));
  const int group = s.rule.norm_group > 0 ? s.rule.norm_group : s.value_dim;
  const auto norm = [&](const mx::array& x) {
    const auto grouped = mx::reshape(x, {x.shape(0), -1, group});
    const auto mean = mx::mean(mx::square(grouped), -1, true);
    const auto normed = mx::multiply(grouped, mx::rsqrt(mx::add(mean, mx::array(w.eps))));
    return mx::reshape(mx::multiply(normed, mx::reshape(w.norm, {-1, group})), z.shape());
  };
  y = mx::reshape(y, z.shape());
  switch (s.rule.norm) {
    case RecurrenceRule::Norm::before_gate:
      return mx::multiply(norm(y), gate);
    case RecurrenceRule::Norm::after_gate:
      return norm(mx::multiply(y, gate));
    case RecurrenceRule::Norm::none:
      break;
  }
  return mx::multiply(y, gate);
}

// One token's data for its update: k [Hk, Dk], delta [Hv, Dv], decay [Hv] or [Hv * Dk].
struct Entry {
  mx::array k, delta, decay;
};

// S = g S + k delta^T
mx::array updated(const mx::array& s, const Entry& e, int ratio) {
  const int heads = s.shape(0);
  const auto k = mx::expand_dims(mx::repeat(e.k, ratio, 0), 2);  // [Hv, Dk, 1]
  return mx::add(mx::multiply(s, mx::reshape(e.decay, {heads, -1, 1})),
                 mx::matmul(k, mx::expand_dims(e.delta, 1)));
}

Entry entry_of(const RecurrenceWindow& w, const RecurrenceShape& s, int i) {
  const auto row = [&](const Tensor& x, mx::Shape shape) {
    return mx::reshape(as_mlx(x.slice_rows(i, i + 1)), std::move(shape));
  };
  return {row(w.k, {s.key_heads, s.key_dim}), row(w.delta, {s.value_heads, s.value_dim}),
          row(w.decay, {s.value_heads * s.decay_dim()})};
}

// The new conv state after more rows, in its own memory.
mx::array conv_after(const mx::array& conv, const mx::array& rows) {
  const auto all = mx::concatenate({conv, rows}, 0);
  return copy_rows(all, all.shape(0) - conv.shape(0), all.shape(0));
}
mx::array conv_after(const mx::array& conv, const RecurrenceRun& run) {
  if (run.replay == 0) return conv;
  return conv_after(conv, slice_rows(as_mlx(run.state->window->rows), 0, run.replay));
}

// The memory after the run's entries have been applied.
Memory replayed(const RecurrenceShape& shape, const RecurrenceRun& run) {
  const Memory before = memory_of(*run.state);
  mx::array s = before.s;
  for (int i = 0; shape.value_heads > 0 && i < run.replay; i++)
    s = updated(s, entry_of(*run.state->window, shape, i), shape.value_heads / shape.key_heads);
  return {s, conv_after(before.conv, run)};
}

struct Applied {
  mx::array out;  // [T, Hv * Dv]
  std::vector<Entry> entries;
  mx::array s;  // after the tokens
};

// Applies tokens to `from`.
Applied apply(const Rows& rows, const RecurrenceShape& s, const Weights& w, const Memory& from) {
  const int tokens = rows.qkv.shape(0), ratio = s.value_heads / s.key_heads;
  const auto [q, k, v, decay, beta] = prepare(rows, s, w, from.conv);
  Applied done{rows.z, {}, from.s};
  std::vector<mx::array> outputs;
  for (int t = 0; t < tokens; t++) {
    const auto at = [&](const mx::array& y) { return mx::take(y, t, 0); };
    const auto wide = [&](const mx::array& y) { return mx::expand_dims(mx::repeat(at(y), ratio, 0), 1); };
    const auto decayed = mx::multiply(done.s, mx::reshape(at(decay), {s.value_heads, -1, 1}));
    const auto read = mx::reshape(mx::matmul(wide(k), decayed), {s.value_heads, s.value_dim});  // k^T S
    const auto error = s.rule.delta ? mx::subtract(at(v), read) : at(v);
    const auto delta = mx::multiply(mx::expand_dims(at(beta), 1), error);
    done.entries.push_back({at(k), delta, at(decay)});
    done.s = updated(done.s, done.entries.back(), ratio);
    outputs.push_back(mx::reshape(mx::matmul(wide(q), done.s), {1, s.value_heads, s.value_dim}));
  }
  done.out = finish(mx::concatenate(outputs, 0), v, rows.z, s, w);
  return done;
}

// Stores rows [T, ...] in one of the window's tensors, from run.entry on.
void put_rows(const RecurrenceRun& run, Tensor& to, const mx::array& from) {
  const int width = to.shape(1);
  to = from_mlx(to.device(),
                mx::slice_update(as_mlx(to), mx::reshape(from, {run.count, width}), mx::Shape{run.entry, 0},
                                 mx::Shape{run.entry + run.count, width}));
}
void put_entries(const RecurrenceRun& run, const metal::DeltaEntries& entries, const mx::array& rows) {
  RecurrenceWindow& w = *run.state->window;
  put_rows(run, w.k, entries.k);
  put_rows(run, w.delta, entries.delta);
  put_rows(run, w.decay, entries.decay);
  put_rows(run, w.rows, rows);
}

// Sets the state's memory to `after`, and evaluates it and `out`: otherwise the graph would grow with every
// token.
void put_memory(RecurrenceState& state, const Memory& after, std::vector<mx::array> out) {
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
mx::array run_with_kernel(const metal::Launcher& launcher, const Rows& rows, const RecurrenceShape& shape,
                          const Weights& weights, const RecurrenceRun& run) {
  const Memory before = memory_of(*run.state);
  metal::DeltaEntries entries{mx::zeros({0}), mx::zeros({0}), mx::zeros({0})};
  if (run.replay > 0) {
    const RecurrenceWindow& w = *run.state->window;
    const auto replay = [&](const Tensor& x) { return copy_rows(as_mlx(x), 0, run.replay); };
    entries = {replay(w.k), replay(w.delta), replay(w.decay)};
  }
  const auto conv = conv_after(before.conv, run);
  const auto tokens = prepare(rows, shape, weights, conv);
  const auto scanned = metal::delta_scan(launcher, shape, before.s, entries, tokens, run.fold, !run.draft);
  const auto out = finish(scanned.y, tokens.v, rows.z, shape, weights);
  if (run.draft) {
    put_entries(run, {tokens.k, scanned.delta, tokens.decay}, rows.qkv);
    put_memory(*run.state, {scanned.s, run.fold ? conv : before.conv}, {out});
  } else {
    put_memory(*run.state, {scanned.s, conv_after(conv, rows.qkv)}, {out});
  }
  return out;
}

mx::array run_with_mlx(const Rows& rows, const RecurrenceShape& shape, const Weights& weights,
                       const RecurrenceRun& run) {
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

MatmulInput recurrence(const RecurrenceInputs& in, const RecurrenceShape& shape,
                       const RecurrenceWeights& weights, std::span<const RecurrenceRun> runs, bool) {
  ReferenceDevice& device = device_of(in.qkv);
  const Weights w = weights_of(weights, shape.rule);
  const bool kernel = device.launcher() && metal::has_delta_scan(shape);
  std::vector<mx::array> parts;
  for (const RecurrenceRun& run : runs) {
    const Rows rows = rows_of(in, run.begin, run.begin + run.count);
    parts.push_back(kernel ? run_with_kernel(device.launcher(), rows, shape, w, run)
                           : run_with_mlx(rows, shape, w, run));
    if (run.keep) *run.keep = {run.state->s, run.state->conv, {}};
  }
  return from_mlx(device, mx::concatenate(parts, 0));
}

MatmulInput short_conv(const Tensor& in, const RecurrenceShape& shape, const ShortConvWeights& weights,
                       std::span<const RecurrenceRun> runs, bool) {
  std::vector<mx::array> parts;
  for (const RecurrenceRun& run : runs) {
    const auto x = as_mlx(in.slice_rows(run.begin, run.begin + run.count));
    const auto third = [&](int i) {
      return mx::slice(x, {0, i * shape.channels}, {run.count, (i + 1) * shape.channels});
    };
    const auto products = weights.gated ? mx::multiply(third(0), third(2)) : x;
    const Memory before = memory_of(*run.state);
    const auto conv = conv_after(before.conv, run);
    const auto sum =
        mx::add(convolve(conv, products, as_mlx(weights.weight), shape.conv_kernel), or_zero(weights.bias));
    parts.push_back(weights.gated ? mx::multiply(third(1), sum) : sum);
    if (run.draft) put_rows(run, run.state->window->rows, products);
    const auto after = !run.draft ? conv_after(conv, products) : run.fold ? conv : before.conv;
    put_memory(*run.state, {before.s, after}, {parts.back()});
    if (run.keep) *run.keep = {run.state->s, run.state->conv, {}};
  }
  return from_mlx(device_of(in), mx::concatenate(parts, 0));
}

void recurrence_fold(const RecurrenceShape& shape, const RecurrenceRun& run) {
  put_memory(*run.state, replayed(shape, run), {});
}

}  // namespace anabranch::ops::reference
