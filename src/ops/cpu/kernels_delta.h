// Gated DeltaNet kernels (ops/gated_delta.h states the recurrence). Included through kernels.inl.
//
// A key head and its value heads pass through all stages kDeltaTokens tokens at a time, so that all data
// between the projections stay in the caches.

constexpr int64_t kDeltaTokens = 64;
// Adjacent vectors of state columns: as many as possible while leaving registers for the sums.
constexpr int kColumnVectors = kNatives == 1 ? 2 : 1;

// Scratch data of a block of tokens, between the stages.
struct DeltaBlock {
  int64_t t0, count;
  float *q, *k;         // [kDeltaTokens, Dk]
  float* v;             // [kDeltaTokens, ratio * Dv]
  float *decay, *beta;  // [ratio, kDeltaTokens]
  float* s;             // [Dk, 16 * kColumnVectors]
  const float* next;    // state of the next head of this thread, or null
};

FN int64_t delta_ratio(const GatedDeltaArgs& a) {
  return a.value_heads / a.key_heads;
}

FN int64_t delta_tile(const GatedDeltaArgs& a) {
  return a.key_dim * kLanes * kColumnVectors;
}

static int64_t delta_scratch_floats(const GatedDeltaArgs& a) {
  const int64_t ratio = delta_ratio(a);
  return kDeltaTokens * (2 * a.key_dim + ratio * a.value_dim + 2 * ratio + kLanes) + delta_tile(a);
}

// Every array begins on a cache line if the dimensions are multiples of 16, as in all released models.
FN DeltaBlock carve_block(const GatedDeltaArgs& a, float* scratch) {
  const int64_t ratio = delta_ratio(a);
  DeltaBlock b;
  b.t0 = b.count = 0;
  b.next = nullptr;
  b.s = scratch;
  b.decay = b.s + delta_tile(a);
  b.beta = b.decay + ratio * kDeltaTokens;
  b.q = b.beta + ratio * kDeltaTokens;
  b.k = b.q + kDeltaTokens * a.key_dim;
  b.v = b.k + kDeltaTokens * a.key_dim;
  return b;
}

// The convolution's input row of token t. Negative t: before this call. Such rows are in the window for draft
// tokens that are not folded yet, else in conv_state.
FN const float* conv_row(const GatedDeltaArgs& a, int64_t t) {
  if (t >= 0) return a.qkv + t * a.channels;
  const int64_t open = a.fold ? 0 : a.replay;
  if (open + t >= 0) return a.window.rows + (open + t) * a.channels;
  return a.conv_state + (open + t + a.conv_kernel - 1) * a.channels;
}

// The input rows for token t's taps, oldest first.
FN void conv_taps(const GatedDeltaArgs& a, int64_t t, const float** taps) {
  for (int64_t j = 0; j < a.conv_kernel; j++) taps[j] = conv_row(a, t - (a.conv_kernel - 1) + j);
}

// out = silu(sum over taps of w row), oldest tap first, for channels [c0, c0 + count). Taps: the number of
// taps, or 0 if it is not known at compile time.
template <int Taps>
static void conv_channels_of(const GatedDeltaArgs& a, const float* const* taps, int64_t c0, int64_t count,
                             float* out) {
  const float* w = a.conv_weight + c0;
  int64_t c = 0;
  if constexpr (Taps > 0) {
    const float* rows[Taps];
    UNROLL for (int j = 0; j < Taps; j++) rows[j] = taps[j] + c0;
    for (; c + kLanes <= count; c += kLanes) {
      F s = zero();
      UNROLL for (int j = 0; j < Taps; j++) s = fma(load(w + j * a.channels + c), load(rows[j] + c), s);
      store(out + c, silu(s));
    }
  }
  for (; c < count; c += kLanes) {
    F s = zero();
    for (int64_t j = 0; j < a.conv_kernel; j++)
      s = fma(load_upto(w + j * a.channels + c, count - c), load_upto(taps[j] + c0 + c, count - c), s);
    store_upto(out + c, silu(s), count - c);
  }
}
FN void conv_channels(const GatedDeltaArgs& a, const float* const* taps, int64_t c0, int64_t count,
                      float* out) {
  a.conv_kernel == 4 ? conv_channels_of<4>(a, taps, c0, count, out)
                     : conv_channels_of<0>(a, taps, c0, count, out);
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

// Gates of one value head, one token per lane.
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
    const float* taps[kMaxConvKernel];
    conv_taps(a, b.t0 + i, taps);
    conv_channels(a, taps, key_head * a.key_dim, a.key_dim, q);
    conv_channels(a, taps, keys + key_head * a.key_dim, a.key_dim, k);
    conv_channels(a, taps, 2 * keys + key_head * values, values, b.v + i * values);
    l2_normalise(q, a.key_dim, q_factor);
    l2_normalise(k, a.key_dim, 1.0f);
  }
  for (int64_t j = 0; j < ratio; j++)
    delta_gates(a, b, key_head * ratio + j, b.decay + j * kDeltaTokens, b.beta + j * kDeltaTokens);
}

// Part of a row of S, or of v or y: columns [column, column + 16 * NC); the last vector may be partial.
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

// Where a token's new state is stored: in scratch, where the next token reads it; in out; or nowhere.
enum class Keep { scratch, out, nothing };
struct DeltaRows {
  float* s;  // scratch, [Dk, 16 * NC]
  float* out;
  int64_t stride, left;  // of out
};

// S = g S + k delta^T, one row.
template <int NC>
FN Columns<NC> delta_update(const Columns<NC>& s, float k, F g, const Columns<NC>& delta) {
  Columns<NC> row;
  UNROLL for (int c = 0; c < NC; c++) row.v[c] = fma(splat(k), delta.v[c], mul(g, s.v[c]));
  return row;
}

// One row i of S for one token: row = g row + k_i delta;  y += q_i row;  u += next_i row (the next token's
// k^T S).
template <int NC, Keep To>
FN void delta_row(const DeltaRows& rows, int64_t i, const float* k, const float* q, const float* next, F g,
                  const Columns<NC>& delta, Columns<NC>& y, Columns<NC>& u) {
  float* s = rows.s + i * NC * kLanes;
  Columns<NC> row;
  UNROLL for (int c = 0; c < NC; c++) row.v[c] = load(s + c * kLanes);
  row = delta_update<NC>(row, k[i], g, delta);
  UNROLL for (int c = 0; c < NC; c++) {
    y.v[c] = fma(splat(q[i]), row.v[c], y.v[c]);
    if (To != Keep::scratch) continue;
    store(s + c * kLanes, row.v[c]);
    u.v[c] = fma(splat(next[i]), row.v[c], u.v[c]);
  }
  if (To == Keep::out) store_columns<NC>(rows.out + i * rows.stride, row, rows.left);
}
template <int NC, Keep To>
FN void delta_rows(const DeltaRows& rows, int64_t dk, const float* k, const float* q, F g,
                   const Columns<NC>& delta, Columns<NC> (&y)[2], Columns<NC> (&u)[2]) {
  const float* next = k + dk;
  int64_t i = 0;
  for (; i + 2 <= dk; i += 2) {
    UNROLL for (int j = 0; j < 2; j++) delta_row<NC, To>(rows, i + j, k, q, next, g, delta, y[j], u[j]);
  }
  if (i < dk) delta_row<NC, To>(rows, i, k, q, next, g, delta, y[0], u[0]);
}

// A group of columns of one head, with the data that every step of its recurrence needs.
template <int NC>
struct DeltaPiece {
  const GatedDeltaArgs& a;
  const DeltaBlock& b;
  int64_t head, column;

  int64_t dk() const { return a.key_dim; }
  int64_t left() const { return a.value_dim - column; }
  const float* k(int64_t t) const { return b.k + t * a.key_dim; }
  // k of window entry e.
  const float* replay_k(int64_t e) const {
    return a.window.k + (e * a.key_heads + head / delta_ratio(a)) * a.key_dim;
  }
  float* replay_delta(int64_t e) const {
    return a.window.delta + (e * a.value_heads + head) * a.value_dim + column;
  }
  float replay_decay(int64_t e) const { return a.window.decay[e * a.value_heads + head]; }
};

// Window entries, prepared to be applied to rows of S in order, with the same operations as when they were
// tokens.
template <int NC>
struct Replay {
  struct Entry {
    const float* k;
    F decay;
    Columns<NC> delta;
  };
  Entry entries[kMaxDraftTokens];
  int64_t count;
};
template <int NC>
static void make_replay(const DeltaPiece<NC>& p, Replay<NC>& out) {
  out.count = p.a.replay;
  for (int64_t e = 0; e < out.count; e++)
    out.entries[e] = {p.replay_k(e), splat(p.replay_decay(e)), load_columns<NC>(p.replay_delta(e), p.left())};
}
template <int NC>
FN Columns<NC> replay_row(const Replay<NC>& replay, int64_t i, Columns<NC> row) {
  for (int64_t r = 0; r < replay.count; r++) {
    const auto& e = replay.entries[r];
    row = delta_update<NC>(row, e.k[i], e.decay, e.delta);
  }
  return row;
}

// Rows of S to prefetch ahead of a pass over a column group: the group's part of a row is one or two cache
// lines, and consecutive parts are a whole row apart.
constexpr int64_t kRowsAhead = 8;

// Prefetches floats [begin, begin + count) of a head's S into the L2 cache, in memory order, during the work
// on the head before. Otherwise S would be read in parts of rows, which is slow from memory.
FN void fetch_state(const float* state, int64_t begin, int64_t count) {
  for (int64_t i = begin; i < begin + count; i += 16) __builtin_prefetch(state + i, 0, 2);
}

// Loads S into scratch and applies the window on the way; a folded window is also stored. u = k^T S of the
// first token.
template <int NC, bool WithReplay>
static void delta_load(const DeltaPiece<NC>& p, Columns<NC> (&u)[2]) {
  const int64_t at = p.head * p.dk() * p.a.value_dim + p.column, dv = p.a.value_dim, left = p.left();
  const int64_t dk = p.dk();
  const float *s_in = (p.b.t0 == 0 ? p.a.s_in : p.a.s_out) + at, *k = p.b.k;
  float *s_out = p.a.s_out + at, *s = p.b.s;
  const bool fold = p.a.fold, more = p.b.count > 0;
  Replay<NC> replay;
  if (WithReplay) make_replay<NC>(p, replay);
  clear(u);
  for (int64_t i = 0; i < dk; i++) {
    if (p.b.next) fetch_state(p.b.next, p.column * dk + i * NC * kLanes, NC * kLanes);
    UNROLL for (int c = 0; c < NC; c++) __builtin_prefetch(s_in + (i + kRowsAhead) * dv + c * kLanes);
    Columns<NC> row = load_columns<NC>(s_in + i * dv, left);
    if (WithReplay) {
      row = replay_row<NC>(replay, i, row);
      if (fold) store_columns<NC>(s_out + i * dv, row, left);
      if (!more) continue;
    }
    UNROLL for (int c = 0; c < NC; c++) {
      store(s + (i * NC + c) * kLanes, row.v[c]);
      u[i & 1].v[c] = fma(splat(k[i]), row.v[c], u[i & 1].v[c]);
    }
  }
}

// Sums over Dk use two chains, even and odd rows, added at the end.
//   u = k^T S;  delta = beta (v - g u);  S = g S + k delta^T;  y = q^T S
// The pass that updates S for one token also makes u for the next one.
template <int NC>
static void delta_recur(const GatedDeltaArgs& a, const DeltaBlock& b, int64_t head, int64_t column) {
  const DeltaPiece<NC> p = {a, b, head, column};
  const int64_t dk = a.key_dim, dv = a.value_dim, left = p.left(), ratio = delta_ratio(a), j = head % ratio;
  const DeltaRows rows = {b.s, a.s_out + head * dk * dv + column, dv, left};
  const float *q = b.q, *v = b.v + j * dv + column;
  const float *decay = b.decay + j * kDeltaTokens, *beta = b.beta + j * kDeltaTokens;
  Columns<NC> u[2], y[2];
  if (b.t0 == 0 && a.replay > 0)
    delta_load<NC, true>(p, u);
  else
    delta_load<NC, false>(p, u);
  for (int64_t t = 0; t < b.count; t++, q += dk, v += ratio * dv) {
    const F g = splat(decay[t]);
    Columns<NC> delta = load_columns<NC>(v, left);
    UNROLL for (int c = 0; c < NC; c++) delta.v[c] =
        mul(splat(beta[t]), sub(delta.v[c], mul(g, add(u[0].v[c], u[1].v[c]))));
    if (a.draft) store_columns<NC>(p.replay_delta(a.entry + t), delta, left);
    clear(y);
    clear(u);
    if (t + 1 < b.count)
      delta_rows<NC, Keep::scratch>(rows, dk, p.k(t), q, g, delta, y, u);
    else if (a.draft)
      delta_rows<NC, Keep::nothing>(rows, dk, p.k(t), q, g, delta, y, u);
    else
      delta_rows<NC, Keep::out>(rows, dk, p.k(t), q, g, delta, y, u);
    UNROLL for (int c = 0; c < NC; c++) y[0].v[c] = add(y[0].v[c], y[1].v[c]);
    store_columns<NC>(a.y + ((b.t0 + t) * a.value_heads + head) * dv + column, y[0], left);
  }
}

// Applies the output norm and gate.
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
      const F gate = load_upto(z + i, left);
      store_upto(y + i, mul(n, a.sigmoid_gate ? sigmoid(gate) : silu(gate)), left);
    }
  }
}

// Processes all columns of one value head.
static void delta_columns(const GatedDeltaArgs& a, const DeltaBlock& b, int64_t head) {
  int64_t c = 0;
  if constexpr (kColumnVectors > 1) {
    for (; c + kColumnVectors * kLanes <= a.value_dim; c += kColumnVectors * kLanes)
      delta_recur<kColumnVectors>(a, b, head, c);
  }
  for (; c < a.value_dim; c += kLanes) delta_recur<1>(a, b, head, c);
}

FN void copy_floats(float* to, const float* from, int64_t count) {
  __builtin_memcpy(to, from, static_cast<uint64_t>(count) * 4);
}

// Stores the tokens' entries in the window, except delta, which the recurrence stores itself.
static void delta_keep(const GatedDeltaArgs& a, const DeltaBlock& b, int64_t key_head) {
  const int64_t dk = a.key_dim, ratio = delta_ratio(a), keys = a.key_heads * dk, values = ratio * a.value_dim;
  const int64_t q_at = key_head * dk, v_at = 2 * keys + key_head * values;
  for (int64_t t = 0; t < b.count; t++) {
    const int64_t e = a.entry + t;
    copy_floats(a.window.k + e * keys + q_at, b.k + t * dk, dk);
    for (int64_t j = 0; j < ratio; j++)
      a.window.decay[e * a.value_heads + key_head * ratio + j] = b.decay[j * kDeltaTokens + t];
    const float* from = a.qkv + t * a.channels;
    float* to = a.window.rows + e * a.channels;
    copy_floats(to + q_at, from + q_at, dk);
    copy_floats(to + keys + q_at, from + keys + q_at, dk);
    copy_floats(to + v_at, from + v_at, values);
  }
}

static void delta_head(const GatedDeltaArgs& a, int64_t key_head, bool first, const float* next,
                       float* scratch) {
  const int64_t ratio = delta_ratio(a), begin = key_head * ratio, end = begin + ratio;
  const int64_t head_floats = a.key_dim * a.value_dim;
  DeltaBlock b = carve_block(a, scratch);
  const auto columns = [&](int64_t h) __attribute__((always_inline)) {
    const bool once = b.t0 == 0;  // only the first block of tokens prefetches: later ones have just written S
    b.next = !once ? nullptr : h + 1 < end ? a.s_in + (h + 1) * head_floats : next;
    delta_columns(a, b, h);
  };
  if (first) fetch_state(a.s_in + begin * head_floats, 0, head_floats);
  if (a.tokens == 0) {  // only fold
    for (int64_t h = begin; h < end; h++) columns(h);
  }
  for (; b.t0 < a.tokens; b.t0 += kDeltaTokens) {
    b.count = a.tokens - b.t0 < kDeltaTokens ? a.tokens - b.t0 : kDeltaTokens;
    delta_prepare(a, b, key_head);
    for (int64_t h = begin; h < end; h++) {
      columns(h);
      delta_finish(a, b, h);
    }
  }
  if (a.draft) delta_keep(a, b, key_head);
}
