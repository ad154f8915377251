#include "ops/gated_delta.h"

#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <cmath>

#include "ops/reference/reference.h"

namespace anabranch::ops::reference {
namespace {

mx::array silu(const mx::array& x) {
  return x * mx::sigmoid(x);
}

// Depthwise causal convolution of [kernel - 1 + T, C] -> [T, C].
mx::array convolve(const mx::array& rows, const mx::array& weight, int kernel, int channels) {
  const int tokens = rows.shape(0) - kernel + 1;
  mx::array sum = mx::zeros({tokens, channels}, mx::float32);
  for (int j = 0; j < kernel; j++) {
    const mx::array tap = mx::slice(weight, {j, 0}, {j + 1, channels});
    sum = sum + tap * mx::slice(rows, {j, 0}, {j + tokens, channels});
  }
  return sum;
}

// Heads of x[:, first ..] as [T, value_heads, dim], each normalised to length 1.
mx::array unit_heads(const mx::array& x, int first, const GatedDeltaShape& shape) {
  const int tokens = x.shape(0), heads = shape.key_heads, dim = shape.key_dim;
  const mx::array h =
      mx::reshape(mx::slice(x, {0, first}, {tokens, first + heads * dim}), {tokens, heads, dim});
  const mx::array norm = mx::rsqrt(mx::sum(mx::square(h), 2, /*keepdims=*/true) + mx::array(1e-6f));
  return mx::repeat(h * norm, shape.value_heads / heads, 1);
}

mx::array token(const mx::array& x, int t, mx::Shape shape) {
  return mx::reshape(mx::take(x, t, 0), shape);
}

}  // namespace

mx::array gated_delta(const mx::array& qkv, const mx::array& z, const mx::array& b, const mx::array& a,
                      const GatedDeltaShape& shape, const GatedDeltaWeights& weights,
                      GatedDeltaState& state) {
  const int tokens = qkv.shape(0), channels = shape.conv_channels(), heads = shape.value_heads;
  const int dk = shape.key_dim, dv = shape.value_dim, keys = shape.key_heads * dk, kernel = shape.conv_kernel;
  const mx::array rows = kernel > 1 ? mx::concatenate({state.conv, qkv}, 0) : qkv;
  const mx::array x = silu(convolve(rows, weights.conv_weight, kernel, channels));
  const mx::array q = unit_heads(x, 0, shape) * mx::array(1.0f / std::sqrt(static_cast<float>(dk)));
  const mx::array k = unit_heads(x, keys, shape);
  const mx::array v = mx::slice(x, {0, 2 * keys}, {tokens, channels});
  const mx::array beta = mx::sigmoid(b);
  const mx::array softplus = mx::logaddexp(a + weights.dt_bias, mx::array(0.0f));
  const mx::array decay = mx::exp(mx::negative(mx::exp(weights.a_log) * softplus));

  mx::array s = state.s;
  std::vector<mx::array> ys;
  for (int t = 0; t < tokens; t++) {
    const mx::array qt = token(q, t, {heads, dk, 1}), kt = token(k, t, {heads, dk, 1});
    s = s * token(decay, t, {heads, 1, 1});
    const mx::array known = mx::sum(s * kt, 1, /*keepdims=*/true);
    const mx::array delta = token(beta, t, {heads, 1, 1}) * (token(v, t, {heads, 1, dv}) - known);
    s = s + kt * delta;
    ys.push_back(mx::reshape(mx::sum(s * qt, 1), {1, heads, dv}));
    if (t % 64 == 63) mx::eval(s, ys.back());  // bounds the graph
  }
  const mx::array y = mx::concatenate(std::move(ys), 0);
  const mx::array scale = mx::rsqrt(mx::mean(mx::square(y), 2, /*keepdims=*/true) + mx::array(weights.eps));
  const mx::array gate = silu(mx::reshape(z, {tokens, heads, dv}));
  state.s = s;
  if (kernel > 1) state.conv = mx::contiguous(mx::slice(rows, {tokens, 0}, {tokens + kernel - 1, channels}));
  mx::array out = mx::reshape(y * scale * weights.norm_weight * gate, {tokens, heads * dv});
  mx::eval(out, state.s, state.conv);
  return out;
}

}  // namespace anabranch::ops::reference
