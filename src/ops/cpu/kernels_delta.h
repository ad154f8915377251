// Gated DeltaNet kernels (ops/gated_delta.h states the recurrence). Included through kernels.inl.
//
// A key head and the value heads that use it pass through all stages kDeltaTokens tokens at a time, so that
// everything between the projections stays in the caches.

constexpr int64_t kDeltaTokens = 64;
// Vectors of state columns side by side: as many as leave registers for the sums.
constexpr int kColumnVectors = kNatives == 1 ? 2 : 1;

// A block of tokens between the stages, in scratch.
struct DeltaBlock {
  int64_t t0, count;
  float *q, *k;         // [kDeltaTokens, Dk]
  float* v;             // [kDeltaTokens, ratio * Dv]
  float *decay, *beta;  // [ratio, kDeltaTokens]
  float* s;             // [Dk, 16 * kColumnVectors]
};

FN int64_t delta_ratio(const GatedDeltaArgs& a) {
  return a.value_heads / a.key_heads;
}

static int64_t delta_scratch_floats(const GatedDeltaArgs& a) {
  const int64_t ratio = delta_ratio(a);
  return kDeltaTokens * (2 * a.key_dim + ratio * a.value_dim + 2 * ratio + kLanes) +
         a.key_dim * kLanes * kColumnVectors;
}

// Every part begins on a cache line when the dimensions are multiples of 16, as in all released models.
FN DeltaBlock carve_block(const GatedDeltaArgs& a, float* scratch) {
  const int64_t ratio = delta_ratio(a);
  DeltaBlock b;
  b.t0 = b.count = 0;
  b.s = scratch;
  b.decay = b.s + a.key_dim * kLanes * kColumnVectors;
  b.beta = b.decay + ratio * kDeltaTokens;
  b.q = b.beta + ratio * kDeltaTokens;
  b.k = b.q + kDeltaTokens * a.key_dim;
  b.v = b.k + kDeltaTokens * a.key_dim;
  return b;
}

// The convolution's input row of token t (negative: before this call).
FN const float* conv_row(const GatedDeltaArgs& a, int64_t t) {
  return t >= 0 ? a.qkv + t * a.channels : a.conv_state + (t + a.conv_kernel - 1) * a.channels;
}

// out = silu(sum over taps of w row), oldest tap first, for channels [c0, c0 + count) of token t.
static void conv_channels(const GatedDeltaArgs& a, int64_t t, int64_t c0, int64_t count, float* out) {
  for (int64_t c = 0; c < count; c += kLanes) {
    F s = zero();
    for (int64_t j = 0; j < a.conv_kernel; j++) {
      const F row = load_upto(conv_row(a, t - a.conv_kernel + 1 + j) + c0 + c, count - c);
      s = fma(load_upto(a.conv_weight + j * a.channels + c0 + c, count - c), row, s);
    }
    store_upto(out + c, silu(s), count - c);
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

// Gates of one value head, a token a lane.
static void delta_gates(const GatedDeltaArgs& a, const DeltaBlock& b, int64_t head, float* decay,
                        float* beta) {
  const F rate = exp(splat(a.a_log[head])), bias = splat(a.dt_bias[head]);
  for (int64_t t = 0; t < b.count; t += kLanes) {
    const int64_t n = b.count - t < kLanes ? b.count - t : kLanes;
    float in_a[kLanes] = {}, in_b[kLanes] = {};
    for (int64_t i = 0; i < n; i++) {
      in_a[i] = a.a[(b.t0 + t + i) * a.value_heads + head];
      in_b[i] = a.b[(b.t0 + t + i) * a.value_heads + head];
    }
    store(decay + t, exp(sub(zero(), mul(rate, softplus(add(load(in_a), bias))))));
    store(beta + t, sigmoid(load(in_b)));
  }
}

// Convolution, normalisation and gates.
static void delta_prepare(const GatedDeltaArgs& a, const DeltaBlock& b, int64_t key_head) {
  const int64_t ratio = delta_ratio(a), keys = a.key_heads * a.key_dim, values = ratio * a.value_dim;
  const float q_factor = 1.0f / __builtin_sqrtf(static_cast<float>(a.key_dim));
  for (int64_t i = 0; i < b.count; i++) {
    float *q = b.q + i * a.key_dim, *k = b.k + i * a.key_dim;
    conv_channels(a, b.t0 + i, key_head * a.key_dim, a.key_dim, q);
    conv_channels(a, b.t0 + i, keys + key_head * a.key_dim, a.key_dim, k);
    conv_channels(a, b.t0 + i, 2 * keys + key_head * values, values, b.v + i * values);
    l2_normalise(q, a.key_dim, q_factor);
    l2_normalise(k, a.key_dim, 1.0f);
  }
  for (int64_t j = 0; j < ratio; j++)
    delta_gates(a, b, key_head * ratio + j, b.decay + j * kDeltaTokens, b.beta + j * kDeltaTokens);
}

// A piece of rows of S, or of v or y: columns [column, column + 16 * NC), the last vector perhaps in part.
template <int NC>
struct Columns {
  F v[NC];
};
template <int NC>
FN Columns<NC> load_columns(const float* p, int64_t left) {
  Columns<NC> r;
  UNROLL for (int c = 0; c < NC; c++) r.v[c] = load_upto(p + c * kLanes, left - c * kLanes);
  return r;
}
template <int NC>
FN void store_columns(float* p, const Columns<NC>& x, int64_t left) {
  UNROLL for (int c = 0; c < NC; c++) store_upto(p + c * kLanes, x.v[c], left - c * kLanes);
}
template <int NC>
FN void clear(Columns<NC> (&x)[2]) {
  UNROLL for (int c = 0; c < NC; c++) x[0].v[c] = x[1].v[c] = zero();
}

// Where a token's new state goes: back to scratch, where the next token reads it, or out.
struct DeltaRows {
  float* s;  // scratch, [Dk, 16 * NC]
  float* out;
  int64_t stride, left;  // of out
};

// One row i of S for one token: row = g row + k_i delta;  y += q_i row;  u += next_i row (the next token's
// k^T S).
template <int NC, bool Last>
FN void delta_row(const DeltaRows& rows, int64_t i, const float* k, const float* q, const float* next, F g,
                  const Columns<NC>& delta, Columns<NC>& y, Columns<NC>& u) {
  Columns<NC> row;
  UNROLL for (int c = 0; c < NC; c++) {
    float* s = rows.s + (i * NC + c) * kLanes;
    row.v[c] = fma(splat(k[i]), delta.v[c], mul(g, load(s)));
    y.v[c] = fma(splat(q[i]), row.v[c], y.v[c]);
    if (Last) continue;
    store(s, row.v[c]);
    u.v[c] = fma(splat(next[i]), row.v[c], u.v[c]);
  }
  if (Last) store_columns<NC>(rows.out + i * rows.stride, row, rows.left);
}
template <int NC, bool Last>
FN void delta_rows(const DeltaRows& rows, int64_t dk, const float* k, const float* q, F g,
                   const Columns<NC>& delta, Columns<NC> (&y)[2], Columns<NC> (&u)[2]) {
  const float* next = k + dk;
  int64_t i = 0;
  for (; i + 2 <= dk; i += 2) {
    UNROLL for (int j = 0; j < 2; j++) delta_row<NC, Last>(rows, i + j, k, q, next, g, delta, y[j], u[j]);
  }
  if (i < dk) delta_row<NC, Last>(rows, i, k, q, next, g, delta, y[0], u[0]);
}

// Sums over Dk run in two chains, even and odd rows, added at the end.
//   u = k^T S;  delta = beta (v - g u);  S = g S + k delta^T;  y = q^T S
// The pass that updates S for one token also makes u for the next one.
template <int NC>
static void delta_recur(const GatedDeltaArgs& a, const DeltaBlock& b, int64_t head, int64_t column) {
  const int64_t dk = a.key_dim, dv = a.value_dim, left = dv - column, ratio = delta_ratio(a),
                j = head % ratio;
  const float* s_in = (b.t0 == 0 ? a.s_in : a.s_out) + head * dk * dv + column;
  const DeltaRows rows = {b.s, a.s_out + head * dk * dv + column, dv, left};
  const float *k = b.k, *q = b.q, *v = b.v + j * dv + column;
  const float *decay = b.decay + j * kDeltaTokens, *beta = b.beta + j * kDeltaTokens;
  Columns<NC> u[2], y[2];
  clear(u);
  for (int64_t i = 0; i < dk; i++) {
    const Columns<NC> row = load_columns<NC>(s_in + i * dv, left);
    UNROLL for (int c = 0; c < NC; c++) {
      store(b.s + (i * NC + c) * kLanes, row.v[c]);
      u[i & 1].v[c] = fma(splat(k[i]), row.v[c], u[i & 1].v[c]);
    }
  }
  for (int64_t t = 0; t < b.count; t++, k += dk, q += dk, v += ratio * dv) {
    const F g = splat(decay[t]);
    Columns<NC> delta = load_columns<NC>(v, left);
    UNROLL for (int c = 0; c < NC; c++) delta.v[c] =
        mul(splat(beta[t]), sub(delta.v[c], mul(g, add(u[0].v[c], u[1].v[c]))));
    clear(y);
    clear(u);
    if (t + 1 < b.count)
      delta_rows<NC, false>(rows, dk, k, q, g, delta, y, u);
    else
      delta_rows<NC, true>(rows, dk, k, q, g, delta, y, u);
    UNROLL for (int c = 0; c < NC; c++) y[0].v[c] = add(y[0].v[c], y[1].v[c]);
    store_columns<NC>(a.y + ((b.t0 + t) * a.value_heads + head) * dv + column, y[0], left);
  }
}

// Output norm and gate.
static void delta_finish(const GatedDeltaArgs& a, const DeltaBlock& b, int64_t head) {
  const int64_t dv = a.value_dim;
  for (int64_t t = b.t0; t < b.t0 + b.count; t++) {
    float* y = a.y + (t * a.value_heads + head) * dv;
    const float* z = a.z + (t * a.value_heads + head) * dv;
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

static void delta_head(const GatedDeltaArgs& a, int64_t key_head, float* scratch) {
  const int64_t ratio = delta_ratio(a);
  DeltaBlock b = carve_block(a, scratch);
  for (; b.t0 < a.tokens; b.t0 += kDeltaTokens) {
    b.count = a.tokens - b.t0 < kDeltaTokens ? a.tokens - b.t0 : kDeltaTokens;
    delta_prepare(a, b, key_head);
    for (int64_t h = key_head * ratio; h < (key_head + 1) * ratio; h++) {
      int64_t c = 0;
      if constexpr (kColumnVectors > 1) {
        for (; c + kColumnVectors * kLanes <= a.value_dim; c += kColumnVectors * kLanes)
          delta_recur<kColumnVectors>(a, b, h, c);
      }
      for (; c < a.value_dim; c += kLanes) delta_recur<1>(a, b, h, c);
      delta_finish(a, b, h);
    }
  }
}
