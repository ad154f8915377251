#include "ops/reference/gated_delta.h"

#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "ops/metal/gated_delta.h"
#include "ops/metal/kernel.h"
#include "ops/reference/elementwise.h"

namespace anabranch::ops::reference {
namespace {

mx::array silu(const mx::array& x) {
  return mx::multiply(x, mx::sigmoid(x));
}
mx::array softplus(const mx::array& x) {
  return mx::logaddexp(x, mx::array(0.0f));
}
mx::array l2_normalise(const mx::array& x) {
  return mx::multiply(x, mx::rsqrt(mx::add(mx::sum(mx::square(x), -1, true), mx::array(1e-6f))));
}

// silu(causal depthwise convolution) of rows [T, C], where row i follows row parents[i] (-1: the end of
// `before` [n, C], n >= kernel - 1).
mx::array convolve(const mx::array& before, const mx::array& rows, const mx::array& weight, int kernel,
                   std::span<const int> parents) {
  const int tokens = rows.shape(0), first = before.shape(0);
  const auto all = mx::concatenate({before, rows}, 0);
  std::vector<int> at(tokens);
  std::iota(at.begin(), at.end(), first);
  const auto tap = [&](int j) {
    const auto met = mx::take(all, mx::array(at.data(), {tokens}), 0);
    for (int& row : at) row = row >= first ? first + parents[row - first] : row - 1;
    return mx::multiply(met, slice_rows(weight, j, j + 1));
  };
  auto sum = tap(kernel - 1);
  for (int j = kernel - 2; j >= 0; j--) sum = mx::add(sum, tap(j));
  return silu(sum);
}

// What tokens bring: q, k, v after the convolution [T, heads, dim], decay and beta [T, Hv]; row i follows row
// parents[i], the first ones what `conv` ends with.
metal::DeltaScan prepare(const mx::array& qkv, const mx::array& b, const mx::array& a,
                         const GatedDeltaShape& s, const GatedDeltaWeights& w, const mx::array& conv,
                         std::span<const int> parents) {
  const int tokens = qkv.shape(0), keys = s.key_heads * s.key_dim;
  const auto x = convolve(conv, qkv, w.conv_weight, s.conv_kernel, parents);
  const auto heads = [&](int begin, int end, int count, int dim) {
    return mx::reshape(mx::slice(x, {0, begin}, {tokens, end}), {tokens, count, dim});
  };
  const auto scale = mx::array(1.0f / std::sqrt(static_cast<float>(s.key_dim)));
  return {mx::multiply(l2_normalise(heads(0, keys, s.key_heads, s.key_dim)), scale),
          l2_normalise(heads(keys, 2 * keys, s.key_heads, s.key_dim)),
          heads(2 * keys, s.conv_channels(), s.value_heads, s.value_dim),
          mx::exp(mx::negative(mx::multiply(mx::exp(w.a_log), softplus(mx::add(a, w.dt_bias))))),
          mx::sigmoid(b)};
}

// y [T, Hv, Dv] normalised and gated, [T, Hv * Dv]
mx::array finish(const mx::array& y, const mx::array& z, const GatedDeltaWeights& w) {
  const auto mean = mx::mean(mx::square(y), -1, true);
  const auto normed =
      mx::multiply(mx::multiply(y, mx::rsqrt(mx::add(mean, mx::array(w.eps)))), w.norm_weight);
  return mx::multiply(mx::reshape(normed, z.shape()), silu(z));
}

// One token's part of what makes its update: k [Hk, Dk], delta [Hv, Dv], decay [Hv].
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
  return {mx::reshape(slice_rows(w.k, i, i + 1), {s.key_heads, s.key_dim}),
          mx::reshape(slice_rows(w.delta, i, i + 1), {s.value_heads, s.value_dim}),
          mx::reshape(slice_rows(w.decay, i, i + 1), {s.value_heads})};
}

// The state with window entries applied.
GatedDeltaState replayed(const GatedDeltaState& state, const GatedDeltaShape& shape,
                         std::span<const int> entries) {
  GatedDeltaState out{state.s, state.conv, {}};
  for (const int i : entries) {
    out.s = updated(out.s, entry_of(*state.window, shape, i), shape.value_heads / shape.key_heads);
    const auto rows = mx::concatenate({out.conv, slice_rows(state.window->rows, i, i + 1)}, 0);
    out.conv = slice_rows(rows, 1, shape.conv_kernel);
  }
  return out;
}

struct Tokens {
  mx::array out;  // [T, Hv * Dv]
  std::vector<Entry> entries;
  std::vector<mx::array> states;  // S after each token
};

// Tokens from the state `from`; row i follows row parents[i].
Tokens apply(const mx::array& qkv, const mx::array& z, const mx::array& b, const mx::array& a,
             const GatedDeltaShape& s, const GatedDeltaWeights& w, const GatedDeltaState& from,
             std::span<const int> parents) {
  const int tokens = qkv.shape(0), ratio = s.value_heads / s.key_heads;
  const auto [q, k, v, decay, beta] = prepare(qkv, b, a, s, w, from.conv, parents);
  Tokens done{z, {}, {}};
  std::vector<mx::array> outputs;
  for (int t = 0; t < tokens; t++) {
    const auto at = [&](const mx::array& y) { return mx::take(y, t, 0); };
    const auto wide = [&](const mx::array& y) { return mx::expand_dims(mx::repeat(at(y), ratio, 0), 1); };
    const auto before = parents[t] < 0 ? from.s : done.states[parents[t]];
    const auto decayed = mx::multiply(before, mx::reshape(at(decay), {s.value_heads, 1, 1}));
    const auto read = mx::reshape(mx::matmul(wide(k), decayed), {s.value_heads, s.value_dim});  // k^T S
    const auto delta = mx::multiply(mx::expand_dims(at(beta), 1), mx::subtract(at(v), read));
    done.entries.push_back({at(k), delta, at(decay)});
    done.states.push_back(updated(before, done.entries.back(), ratio));
    outputs.push_back(mx::reshape(mx::matmul(wide(q), done.states.back()), {1, s.value_heads, s.value_dim}));
  }
  done.out = finish(mx::concatenate(outputs, 0), z, w);
  return done;
}

std::vector<int> chain_of(int tokens) {
  std::vector<int> parents(tokens);
  std::iota(parents.begin(), parents.end(), -1);
  return parents;
}

void put_rows(mx::array& to, const mx::array& rows, int at) {
  to = mx::slice_update(to, rows, mx::Shape{at, 0}, mx::Shape{at + rows.shape(0), rows.shape(1)});
}

void fold(const GatedDeltaShape& shape, GatedDeltaState& state) {
  const GatedDeltaState folded = replayed(state, shape, state.window->accepted);
  state.s = folded.s;
  state.conv = folded.conv;
}

// The last rows of conv input after more rows.
mx::array conv_after(const mx::array& conv, const mx::array& rows) {
  const auto all = mx::concatenate({conv, rows}, 0);
  return slice_rows(all, all.shape(0) - conv.shape(0), all.shape(0));
}
mx::array conv_after(const mx::array& conv, const GatedDeltaWindow& window, std::span<const int> entries) {
  if (entries.empty()) return conv;
  const mx::array at(entries.data(), {static_cast<int>(entries.size())});
  return conv_after(conv, mx::take(window.rows, at, 0));
}

void put_entries(GatedDeltaWindow& w, const mx::array& k, const mx::array& delta, const mx::array& decay,
                 const mx::array& rows, int at) {
  const int tokens = rows.shape(0);
  put_rows(w.k, mx::reshape(k, {tokens, w.k.shape(1)}), at);
  put_rows(w.delta, mx::reshape(delta, {tokens, w.delta.shape(1)}), at);
  put_rows(w.decay, mx::reshape(decay, {tokens, w.decay.shape(1)}), at);
  put_rows(w.rows, rows, at);
}

// gated_delta(), or gated_delta_trial() of a chain, with the recurrence in one kernel.
mx::array with_kernel(const mx::array& qkv, const mx::array& z, const mx::array& b, const mx::array& a,
                      const GatedDeltaShape& shape, const GatedDeltaWeights& weights, GatedDeltaState& state,
                      bool trial) {
  const int tokens = qkv.shape(0), open = trial ? state.window->open : 0;
  const std::vector<int> folds = state.window ? state.window->accepted : std::vector<int>();
  std::vector<int> chain(open);
  std::iota(chain.begin(), chain.end(), 0);
  if (!folds.empty()) state.conv = conv_after(state.conv, *state.window, folds);
  const auto conv = open > 0 ? conv_after(state.conv, *state.window, chain) : state.conv;
  const auto in = prepare(qkv, b, a, shape, weights, conv, chain_of(tokens));
  const auto scanned = metal::delta_scan(in, shape, state, folds, open, !trial);
  state.s = scanned.s;
  const auto out = finish(scanned.y, z, weights);
  if (trial) {
    GatedDeltaWindow& w = *state.window;
    put_entries(w, in.k, scanned.delta, in.decay, qkv, open);
    mx::eval(state.s, state.conv, w.k, w.delta, w.decay, w.rows, out);
  } else {
    if (state.window) state.window->accepted.clear();
    state.conv = conv_after(state.conv, qkv);
    mx::eval(state.s, state.conv, out);
  }
  return out;
}

bool has_kernel(const GatedDeltaShape& shape) {
  return metal::in_use() && metal::knows(shape);
}

}  // namespace

mx::array gated_delta(const mx::array& qkv, const mx::array& z, const mx::array& b, const mx::array& a,
                      const GatedDeltaShape& s, const GatedDeltaWeights& w, GatedDeltaState& state) {
  if (has_kernel(s)) return with_kernel(qkv, z, b, a, s, w, state, false);
  if (state.window) fold(s, state);
  const Tokens done = apply(qkv, z, b, a, s, w, state, chain_of(qkv.shape(0)));
  if (state.window) state.window->accepted.clear();
  state.s = done.states.back();
  state.conv = conv_after(state.conv, qkv);
  mx::eval(state.s, state.conv, done.out);  // the graph must not grow with every token
  return done.out;
}

mx::array gated_delta_trial(const mx::array& qkv, const mx::array& z, const mx::array& b, const mx::array& a,
                            const GatedDeltaShape& shape, const GatedDeltaWeights& weights,
                            GatedDeltaState& state, std::span<const int> parents) {
  GatedDeltaWindow& w = *state.window;
  const int tokens = qkv.shape(0), open = w.open;
  if (parents.empty() && has_kernel(shape)) return with_kernel(qkv, z, b, a, shape, weights, state, true);
  fold(shape, state);
  std::vector<int> chain(open);
  std::iota(chain.begin(), chain.end(), 0);
  const auto linear = chain_of(tokens);
  const Tokens done = apply(qkv, z, b, a, shape, weights, replayed(state, shape, chain),
                            parents.empty() ? std::span<const int>(linear) : parents);
  std::vector<mx::array> ks, deltas, decays;
  for (const Entry& e : done.entries) {
    ks.push_back(e.k);
    deltas.push_back(e.delta);
    decays.push_back(e.decay);
  }
  put_entries(w, mx::concatenate(ks, 0), mx::concatenate(deltas, 0), mx::concatenate(decays, 0), qkv, open);
  mx::eval(state.s, state.conv, w.k, w.delta, w.decay, w.rows, done.out);
  return done.out;
}

void gated_delta_settle(const GatedDeltaShape& shape, GatedDeltaState& state) {
  fold(shape, state);
  mx::eval(state.s, state.conv);
}

}  // namespace anabranch::ops::reference
