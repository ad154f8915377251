#include "ops/reference/gated_delta.h"

#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <cmath>
#include <numeric>
#include <vector>

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
  const int tokens = qkv.shape(0), keys = s.key_heads * s.key_dim, ratio = s.value_heads / s.key_heads;
  const auto x = convolve(from.conv, qkv, w.conv_weight, s.conv_kernel, parents);
  const auto heads = [&](int begin, int end, int count, int dim) {
    return mx::reshape(mx::slice(x, {0, begin}, {tokens, end}), {tokens, count, dim});
  };
  const auto scale = mx::array(1.0f / std::sqrt(static_cast<float>(s.key_dim)));
  const auto q = mx::multiply(l2_normalise(heads(0, keys, s.key_heads, s.key_dim)), scale);
  const auto k = l2_normalise(heads(keys, 2 * keys, s.key_heads, s.key_dim));
  const auto v = heads(2 * keys, s.conv_channels(), s.value_heads, s.value_dim);
  const auto beta = mx::sigmoid(b);
  const auto decay = mx::exp(mx::negative(mx::multiply(mx::exp(w.a_log), softplus(mx::add(a, w.dt_bias)))));
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
  const auto y = mx::concatenate(outputs, 0);
  const auto mean = mx::mean(mx::square(y), -1, true);
  const auto normed =
      mx::multiply(mx::multiply(y, mx::rsqrt(mx::add(mean, mx::array(w.eps)))), w.norm_weight);
  done.out = mx::multiply(mx::reshape(normed, z.shape()), silu(z));
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

}  // namespace

mx::array gated_delta(const mx::array& qkv, const mx::array& z, const mx::array& b, const mx::array& a,
                      const GatedDeltaShape& s, const GatedDeltaWeights& w, GatedDeltaState& state) {
  const int tokens = qkv.shape(0);
  if (state.window) fold(s, state);
  const Tokens done = apply(qkv, z, b, a, s, w, state, chain_of(tokens));
  if (state.window) state.window->accepted.clear();
  state.s = done.states.back();
  state.conv = slice_rows(mx::concatenate({state.conv, qkv}, 0), tokens, tokens + s.conv_kernel - 1);
  mx::eval(state.s, state.conv, done.out);  // the graph must not grow with every token
  return done.out;
}

mx::array gated_delta_trial(const mx::array& qkv, const mx::array& z, const mx::array& b, const mx::array& a,
                            const GatedDeltaShape& shape, const GatedDeltaWeights& weights,
                            GatedDeltaState& state, std::span<const int> parents) {
  GatedDeltaWindow& w = *state.window;
  const int tokens = qkv.shape(0), open = w.open;
  fold(shape, state);
  std::vector<int> chain(open);
  std::iota(chain.begin(), chain.end(), 0);
  const auto linear = chain_of(tokens);
  const Tokens done = apply(qkv, z, b, a, shape, weights, replayed(state, shape, chain),
                            parents.empty() ? std::span<const int>(linear) : parents);
  std::vector<mx::array> ks, deltas, decays;
  for (const Entry& e : done.entries) {
    ks.push_back(mx::reshape(e.k, {1, w.k.shape(1)}));
    deltas.push_back(mx::reshape(e.delta, {1, w.delta.shape(1)}));
    decays.push_back(mx::reshape(e.decay, {1, w.decay.shape(1)}));
  }
  put_rows(w.k, mx::concatenate(ks, 0), open);
  put_rows(w.delta, mx::concatenate(deltas, 0), open);
  put_rows(w.decay, mx::concatenate(decays, 0), open);
  put_rows(w.rows, qkv, open);
  mx::eval(state.s, state.conv, w.k, w.delta, w.decay, w.rows, done.out);
  return done.out;
}

void gated_delta_settle(const GatedDeltaShape& shape, GatedDeltaState& state) {
  fold(shape, state);
  mx::eval(state.s, state.conv);
}

}  // namespace anabranch::ops::reference
