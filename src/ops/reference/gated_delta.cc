#include "ops/reference/gated_delta.h"

#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <cmath>
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

// silu(causal depthwise convolution) of rows [T, C] after `state` [kernel - 1, C]; the state becomes the last
// rows.
mx::array convolve(const mx::array& rows, const mx::array& weight, int kernel, mx::array& state) {
  const int tokens = rows.shape(0);
  const auto all = mx::concatenate({state, rows}, 0);
  auto sum = mx::multiply(slice_rows(all, 0, tokens), slice_rows(weight, 0, 1));
  for (int j = 1; j < kernel; j++)
    sum = mx::add(sum, mx::multiply(slice_rows(all, j, j + tokens), slice_rows(weight, j, j + 1)));
  state = slice_rows(all, tokens, tokens + kernel - 1);
  return silu(sum);
}

}  // namespace

mx::array gated_delta(const mx::array& qkv, const mx::array& z, const mx::array& b, const mx::array& a,
                      const GatedDeltaShape& s, const GatedDeltaWeights& w, GatedDeltaState& state) {
  const int tokens = qkv.shape(0), keys = s.key_heads * s.key_dim, ratio = s.value_heads / s.key_heads;
  if (tokens == 0) return mx::zeros(z.shape(), mx::float32);
  const auto x = convolve(qkv, w.conv_weight, s.conv_kernel, state.conv);
  const auto heads = [&](int begin, int end, int count, int dim) {
    return mx::reshape(mx::slice(x, {0, begin}, {tokens, end}), {tokens, count, dim});
  };
  const auto scale = mx::array(1.0f / std::sqrt(static_cast<float>(s.key_dim)));
  auto q = mx::multiply(l2_normalise(heads(0, keys, s.key_heads, s.key_dim)), scale);
  auto k = l2_normalise(heads(keys, 2 * keys, s.key_heads, s.key_dim));
  const auto v = heads(2 * keys, s.conv_channels(), s.value_heads, s.value_dim);
  q = mx::expand_dims(mx::repeat(q, ratio, 1), 2);  // [T, Hv, 1, Dk]
  k = mx::expand_dims(mx::repeat(k, ratio, 1), 2);
  const auto beta = mx::sigmoid(b);
  const auto decay = mx::exp(mx::negative(mx::multiply(mx::exp(w.a_log), softplus(mx::add(a, w.dt_bias)))));
  std::vector<mx::array> outputs;
  for (int t = 0; t < tokens; t++) {
    const auto at = [&](const mx::array& y) { return mx::take(y, t, 0); };
    const auto gate = mx::reshape(at(decay), {s.value_heads, 1, 1});
    const auto step = mx::reshape(at(beta), {s.value_heads, 1, 1});
    const auto decayed = mx::multiply(state.s, gate);
    const auto read = mx::matmul(at(k), decayed);  // k^T S: [Hv, 1, Dv]
    const auto delta = mx::multiply(step, mx::subtract(mx::expand_dims(at(v), 1), read));
    state.s = mx::add(decayed, mx::matmul(mx::swapaxes(at(k), 1, 2), delta));
    outputs.push_back(mx::reshape(mx::matmul(at(q), state.s), {1, s.value_heads, s.value_dim}));
  }
  const auto y = mx::concatenate(outputs, 0);
  const auto mean = mx::mean(mx::square(y), -1, true);
  const auto normed =
      mx::multiply(mx::multiply(y, mx::rsqrt(mx::add(mean, mx::array(w.eps)))), w.norm_weight);
  const auto out = mx::multiply(mx::reshape(normed, z.shape()), silu(z));
  mx::eval(state.s, state.conv, out);  // the graph must not grow with every token
  return out;
}

}  // namespace anabranch::ops::reference
