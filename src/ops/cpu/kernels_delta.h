// Gated DeltaNet kernels (ops/gated_delta.h states the recurrence). Included through kernels.inl.

// The convolution's input row of token t (negative: before this call).
FN const float* conv_row(const GatedDeltaArgs& a, int64_t t) {
  return t >= 0 ? a.qkv + t * a.channels : a.conv_state + (t + a.conv_kernel - 1) * a.channels;
}

// x = silu(sum over taps of w row), oldest tap first, for channels [c0, c1).
static void conv_channels(const GatedDeltaArgs& a, int64_t t, int64_t c0, int64_t c1) {
  float* out = a.x + t * a.channels;
  for (int64_t c = c0; c < c1; c += kLanes) {
    const int64_t left = c1 - c;
    F s = zero();
    for (int64_t j = 0; j < a.conv_kernel; j++) {
      const F row = load_upto(conv_row(a, t - a.conv_kernel + 1 + j) + c, left);
      s = fma(load_upto(a.conv_weight + j * a.channels + c, left), row, s);
    }
    store_upto(out + c, silu(s), left);
  }
}

// x = x / sqrt(sum(x^2) + 1e-6) * factor
FN void l2_normalise(float* x, int64_t n, float factor) {
  F s = zero();
  for (int64_t i = 0; i < n; i += kLanes) {
    const F v = load_upto(x + i, n - i);
    s = fma(v, v, s);
  }
  const F f = splat(factor / __builtin_sqrtf(reduce_add(s) + 1e-6f));
  for (int64_t i = 0; i < n; i += kLanes) store_upto(x + i, mul(load_upto(x + i, n - i), f), n - i);
}

static void delta_prepare(const GatedDeltaArgs& a, int64_t t0, int64_t t1, int64_t h0, int64_t h1) {
  const int64_t ratio = a.value_heads / a.key_heads, keys = a.key_heads * a.key_dim;
  const float q_factor = 1.0f / __builtin_sqrtf(static_cast<float>(a.key_dim));
  for (int64_t t = t0; t < t1; t++) {
    float* x = a.x + t * a.channels;
    conv_channels(a, t, h0 * a.key_dim, h1 * a.key_dim);
    conv_channels(a, t, keys + h0 * a.key_dim, keys + h1 * a.key_dim);
    conv_channels(a, t, 2 * keys + h0 * ratio * a.value_dim, 2 * keys + h1 * ratio * a.value_dim);
    for (int64_t h = h0; h < h1; h++) {
      l2_normalise(x + h * a.key_dim, a.key_dim, q_factor);
      l2_normalise(x + keys + h * a.key_dim, a.key_dim, 1.0f);
    }
    const int64_t v0 = h0 * ratio, v1 = h1 * ratio;
    for (int64_t h = v0; h < v1; h += kLanes) {
      const int64_t left = v1 - h, at = t * a.value_heads + h;
      const F step = softplus(add(load_upto(a.a + at, left), load_upto(a.dt_bias + h, left)));
      const F rate = exp(load_upto(a.a_log + h, left));
      store_upto(a.decay + at, exp(sub(zero(), mul(rate, step))), left);
      store_upto(a.beta + at, sigmoid(load_upto(a.b + at, left)), left);
    }
  }
}

// Sums over Dk run in two chains, even and odd rows, added at the end.
//   u = k^T S;  delta = beta (v - g u);  S = g S + k delta^T;  y = q^T S
// The pass that updates S for one token also makes u for the next one.
static void delta_recur(const GatedDeltaArgs& a, int64_t head, int64_t column, float* s) {
  const int64_t dk = a.key_dim, dv = a.value_dim, left = dv - column;
  const int64_t key_head = head / (a.value_heads / a.key_heads), keys = a.key_heads * dk;
  const float* s_in = a.s_in + head * dk * dv + column;
  float* s_out = a.s_out + head * dk * dv + column;
  const float* q = a.x + key_head * dk;
  const float* k = q + keys;
  const float* v = a.x + 2 * keys + head * dv + column;
  F u[2] = {zero(), zero()};
  for (int64_t i = 0; i < dk; i++) {
    const F row = load_upto(s_in + i * dv, left);
    store(s + i * kLanes, row);
    u[i & 1] = fma(splat(k[i]), row, u[i & 1]);
  }
  for (int64_t t = 0; t < a.tokens; t++, q += a.channels, k += a.channels, v += a.channels) {
    const bool last = t + 1 == a.tokens;
    const F g = splat(a.decay[t * a.value_heads + head]), beta = splat(a.beta[t * a.value_heads + head]);
    const F delta = mul(beta, sub(load_upto(v, left), mul(g, add(u[0], u[1]))));
    F y[2] = {zero(), zero()};
    u[0] = u[1] = zero();
    if (last) {
      for (int64_t i = 0; i < dk; i++) {
        const F row = fma(splat(k[i]), delta, mul(g, load(s + i * kLanes)));
        store_upto(s_out + i * dv, row, left);
        y[i & 1] = fma(splat(q[i]), row, y[i & 1]);
      }
    } else {
      const float* next = k + a.channels;
      int64_t i = 0;
      for (; i + 2 <= dk; i += 2) {
        UNROLL for (int j = 0; j < 2; j++) {
          const F row = fma(splat(k[i + j]), delta, mul(g, load(s + (i + j) * kLanes)));
          store(s + (i + j) * kLanes, row);
          y[j] = fma(splat(q[i + j]), row, y[j]);
          u[j] = fma(splat(next[i + j]), row, u[j]);
        }
      }
      if (i < dk) {
        const F row = fma(splat(k[i]), delta, mul(g, load(s + i * kLanes)));
        store(s + i * kLanes, row);
        y[0] = fma(splat(q[i]), row, y[0]);
        u[0] = fma(splat(next[i]), row, u[0]);
      }
    }
    store_upto(a.y + (t * a.value_heads + head) * dv + column, add(y[0], y[1]), left);
  }
}

static void delta_finish(const GatedDeltaArgs& a, int64_t t0, int64_t t1, int64_t head0, int64_t head1) {
  const int64_t dv = a.value_dim;
  for (int64_t t = t0; t < t1; t++) {
    for (int64_t h = head0; h < head1; h++) {
      float* y = a.y + (t * a.value_heads + h) * dv;
      const float* z = a.z + (t * a.value_heads + h) * dv;
      F s = zero();
      for (int64_t i = 0; i < dv; i += kLanes) {
        const F v = load_upto(y + i, dv - i);
        s = fma(v, v, s);
      }
      const F inverse = splat(1.0f / __builtin_sqrtf(reduce_add(s) / static_cast<float>(dv) + a.eps));
      for (int64_t i = 0; i < dv; i += kLanes) {
        const int64_t left = dv - i;
        const F n = mul(mul(load_upto(y + i, left), inverse), load_upto(a.norm_weight + i, left));
        store_upto(y + i, mul(n, silu(load_upto(z + i, left))), left);
      }
    }
  }
}
