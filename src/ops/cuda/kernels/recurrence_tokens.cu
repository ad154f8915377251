// The tokens of a recurrence of any rule: convolution, norms of queries and keys, gates (ops/recurrence.h).
// And the short convolution, which has no more than that. A warp processes a head of queries, of keys, or of
// values and its gates, for a token.

struct TokenPlace {
  int t, lane;
  long row;
};

// One channel of token t, after the convolution and silu. Of a draft, also its input row is stored.
DEVICE float convolve_channel(const RecurrenceArgs& a, const DeltaSpan& s, int t, int channels, int channel) {
  const auto row = [&](int i) {
    return i >= 0 ? a.qkv[(long)(s.row + i) * channels + channel] : earlier_row(s, i, a.taps, channels, channel);
  };
  if (stores_conv(s, t)) store_conv(s, a.taps, channels, channel, row);
  if (t >= s.count) return 0.0f;
  if (s.entry >= 0) s.to.rows[(long)(s.entry + t) * channels + channel] = row(t);
  return silu(convolved(a.conv_weight, a.conv_bias, a.taps, channels, channel, t, row));
}

// A head of queries or keys: head < key_heads or beyond.
DEVICE void make_keys(const RecurrenceArgs& a, const DeltaSpan& s, const TokenPlace& p, int head, int channels) {
  constexpr int kEach = kMostKeyDim / 32;
  const bool is_key = head >= a.key_heads;
  const int own = is_key ? head - a.key_heads : head, padded = a.padded_key;
  float x[kEach], sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kEach; i++) {
    const int at = i * 32 + p.lane;
    x[i] = at < a.key_dim ? convolve_channel(a, s, p.t, channels, head * a.key_dim + at) : 0.0f;
    sum = __fmaf_rn(x[i], x[i], sum);
  }
  if (p.t >= s.count) return;
  float factor = 1.0f;
  if (a.unit_keys) {
    factor = rsqrtf(warp_sum(sum) + 1e-6f);
    if (!is_key) factor = __fmul_rn(factor, rsqrtf((float)a.key_dim));
  }
  float* to = (is_key ? a.keys : a.queries) + (p.row * a.key_heads + own) * padded;
#pragma unroll
  for (int i = 0; i < kEach; i++) {
    const int at = i * 32 + p.lane;
    const float y = __fmul_rn(x[i], factor);
    if (at < padded) to[at] = y;
    if (is_key && s.entry >= 0 && at < a.key_dim)
      s.to.k[((long)(s.entry + p.t) * a.key_heads + own) * a.key_dim + at] = y;
  }
}

// RecurrenceRule::Beta and RecurrenceRule::Decay.
enum { kSigmoid, kTwiceSigmoid, kStep, kOne };
enum { kSoftplus, kBounded, kConstant };
DEVICE float step_of(const RecurrenceArgs& a, float x) {
  const float step = x > 20.0f ? x : log1pf(expf(x));
  return a.beta_rule == kStep ? fminf(fmaxf(step, a.step_min), a.step_max) : step;
}
DEVICE float decay_of(const RecurrenceArgs& a, float rate, float x) {
  if (a.decay_rule == kConstant) return expf(-rate);
  if (a.decay_rule == kBounded) return expf(__fmul_rn(a.bound, sigmoid(__fmul_rn(rate, x))));
  return expf(-__fmul_rn(rate, step_of(a, x)));
}
DEVICE void make_gates(const RecurrenceArgs& a, const DeltaSpan& s, const TokenPlace& p, int head) {
  const long at = p.row * a.value_heads + head, entry = (long)(s.entry + p.t) * a.value_heads + head;
  const float rate = expf(a.a_log[head]), x = a.a && !a.key_decay ? a.a[at] + a.dt_bias[head] : 0.0f;
  if (p.lane == 0) {
    const float once = a.b ? sigmoid(a.b[at]) : 1.0f;
    a.beta[at] = a.beta_rule == kSigmoid        ? once
                 : a.beta_rule == kTwiceSigmoid ? 2.0f * once
                 : a.beta_rule == kStep         ? step_of(a, x)
                                                : 1.0f;
  }
  if (!a.key_decay) {
    if (p.lane > 0) return;
    a.decay[at] = decay_of(a, rate, x);
    if (s.entry >= 0) s.to.decay[entry] = a.decay[at];
    return;
  }
  const int padded = a.padded_key;
  for (int i = p.lane; i < padded; i += 32) {
    float decay = 0.0f;
    if (i < a.key_dim)
      decay = decay_of(a, rate, a.a ? a.a[at * a.key_dim + i] + a.dt_bias[head * a.key_dim + i] : 0.0f);
    a.decay[at * padded + i] = decay;
    if (s.entry >= 0 && i < a.key_dim) s.to.decay[entry * a.key_dim + i] = decay;
  }
}
DEVICE void make_values(const RecurrenceArgs& a, const DeltaSpan& s, const TokenPlace& p, int head, int channels) {
  const int first = 2 * a.key_heads * a.key_dim + head * a.value_dim, padded = a.padded_value;
  for (int i = p.lane; i < padded; i += 32) {
    const float v = i < a.value_dim ? convolve_channel(a, s, p.t, channels, first + i) : 0.0f;
    if (p.t < s.count) a.values[(p.row * a.value_heads + head) * padded + i] = v;
  }
  if (p.t < s.count) make_gates(a, s, p, head);
}

KERNEL make_tokens(const __grid_constant__ RecurrenceArgs a) {
  const DeltaSpan& s = a.span[blockIdx.z];
  if (!a.beside) wait_for_previous();
  let_next_start();
  const int unit = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, queries_and_keys = 2 * a.key_heads;
  const int channels = queries_and_keys * a.key_dim + a.value_heads * a.value_dim;
  if (unit < queries_and_keys + a.value_heads) {
    for (int t = blockIdx.y; t < max(s.count, 1); t += gridDim.y) {
      const TokenPlace p = {t, (int)threadIdx.x % 32, s.row + t};
      if (unit < queries_and_keys)
        make_keys(a, s, p, unit, channels);
      else
        make_values(a, s, p, unit - queries_and_keys, channels);
    }
  }
  if (a.beside) wait_for_previous();
}

// out = C (causal_conv(B x) + bias). A thread processes one channel of a token.
KERNEL short_conv(const __grid_constant__ ShortConvArgs a) {
  const DeltaSpan& s = a.span[blockIdx.z];
  if (!a.beside) wait_for_previous();
  let_next_start();
  const int channel = blockIdx.x * blockDim.x + threadIdx.x, width = a.gated ? 3 * a.channels : a.channels;
  const auto row = [&](int i) {
    if (i < 0) return earlier_row(s, i, a.taps, a.channels, channel);
    const float* in = a.in + (long)(s.row + i) * width + channel;
    return a.gated ? __fmul_rn(in[0], in[2 * a.channels]) : in[0];
  };
  if (channel < a.channels) {
    for (int t = blockIdx.y; t < max(s.count, 1); t += gridDim.y) {
      if (stores_conv(s, t)) store_conv(s, a.taps, a.channels, channel, row);
      if (t >= s.count) break;
      if (s.entry >= 0) s.to.rows[(long)(s.entry + t) * a.channels + channel] = row(t);
      float y = convolved(a.weight, a.bias, a.taps, a.channels, channel, t, row);
      if (a.gated) y = __fmul_rn(a.in[(long)(s.row + t) * width + a.channels + channel], y);
      if (a.tiles) a.tiles[tile_index(s.row + t, channel, a.tiles_rows)] = to_bf16(y);
      if (a.out) a.out[(long)(s.row + t) * a.channels + channel] = y;
    }
  }
  if (a.beside) wait_for_previous();
}
