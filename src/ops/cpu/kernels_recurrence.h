// Kernels of the linear recurrence (ops/recurrence.h states it). Included through kernels.inl.
//
// Some value heads of a key head pass through all stages kDeltaTokens tokens at a time, so that all data
// between the projections stay in the caches.

constexpr int64_t kDeltaTokens = 64;
// Adjacent vectors of state columns: as many as possible while leaving registers for the sums.
constexpr int kColumnVectors = kNatives == 1 ? 2 : 1;

// Scratch data of a block of tokens, between the stages.
struct DeltaBlock {
  int64_t t0, count;
  int64_t begin, heads;  // value heads [begin, begin + heads)
  float *q, *k;          // [kDeltaTokens, Dk]
  float* v;              // [kDeltaTokens, heads * Dv]
  float* decay;          // [heads, kDeltaTokens], or [heads, kDeltaTokens, Dk]
  float* beta;           // [heads, kDeltaTokens]
  float* s;              // [Dk, 16 * kColumnVectors]
  const float* next;     // state of the next head of this thread, or null
};

FN int64_t delta_ratio(const RecurrenceArgs& a) {
  return a.value_heads / a.key_heads;
}

FN int64_t delta_tile(const RecurrenceArgs& a) {
  return a.key_dim * kLanes * kColumnVectors;
}

FN int64_t decay_dim(const RecurrenceArgs& a) {
  return a.rule.key_decay ? a.key_dim : 1;
}

static int64_t recurrence_scratch_floats(const RecurrenceArgs& a, int64_t heads) {
  return kDeltaTokens * (2 * a.key_dim + heads * (a.value_dim + 1 + decay_dim(a)) + kLanes) + delta_tile(a);
}

// Every array begins on a cache line if the dimensions are multiples of 16, as in all released models.
FN DeltaBlock carve_block(const RecurrenceArgs& a, const HeadsTask& task, float* scratch) {
  DeltaBlock b;
  b.t0 = b.count = 0;
  b.begin = task.begin;
  b.heads = task.end - task.begin;
  b.next = nullptr;
  b.s = scratch;
  b.decay = b.s + delta_tile(a);
  b.beta = b.decay + b.heads * kDeltaTokens * decay_dim(a);
  b.q = b.beta + b.heads * kDeltaTokens;
  b.k = b.q + kDeltaTokens * a.key_dim;
  b.v = b.k + kDeltaTokens * a.key_dim;
  return b;
}

// The convolution's input row of token t. Negative t: before this call. Such rows are in the window for draft
// tokens that are not folded yet, else in conv_state.
FN const float* conv_row(const RecurrenceArgs& a, int64_t t) {
  if (t >= 0) return a.qkv + t * a.channels;
  const int64_t open = a.fold ? 0 : a.replay;
  if (open + t >= 0) return a.window.rows + (open + t) * a.channels;
  return a.conv_state + (open + t + a.conv_kernel - 1) * a.channels;
}

// The input rows for token t's taps, oldest first.
FN void conv_taps(const RecurrenceArgs& a, int64_t t, const float** taps) {
  for (int64_t j = 0; j < a.conv_kernel; j++) taps[j] = conv_row(a, t - (a.conv_kernel - 1) + j);
}

// out = the sum over taps of w row, oldest tap first, from the bias on, for channels [c0, c0 + count); silu
// of it if Silu. Taps: the number of taps, or 0 if it is not known at compile time.
template <int Taps, bool Bias, bool Silu>
static void conv_channels_of(const RecurrenceArgs& a, const float* const* taps, int64_t c0, int64_t count,
                             float* out) {
  const float *w = a.conv_weight + c0, *bias = Bias ? a.conv_bias + c0 : nullptr;
  int64_t c = 0;
  if constexpr (Taps > 0) {
    const float* rows[Taps];
    UNROLL for (int j = 0; j < Taps; j++) rows[j] = taps[j] + c0;
    for (; c + kLanes <= count; c += kLanes) {
      F s = Bias ? load(bias + c) : zero();
      UNROLL for (int j = 0; j < Taps; j++) s = fma(load(w + j * a.channels + c), load(rows[j] + c), s);
      store(out + c, Silu ? silu(s) : s);
    }
  }
  for (; c < count; c += kLanes) {
    F s = Bias ? load_upto(bias + c, count - c) : zero();
    for (int64_t j = 0; j < a.conv_kernel; j++)
      s = fma(load_upto(w + j * a.channels + c, count - c), load_upto(taps[j] + c0 + c, count - c), s);
    store_upto(out + c, Silu ? silu(s) : s, count - c);
  }
}
template <bool Silu>
FN void conv_channels(const RecurrenceArgs& a, const float* const* taps, int64_t c0, int64_t count,
                      float* out) {
  const bool four = a.conv_kernel == 4;
  if (a.conv_bias)
    four ? conv_channels_of<4, true, Silu>(a, taps, c0, count, out)
         : conv_channels_of<0, true, Silu>(a, taps, c0, count, out);
  else
    four ? conv_channels_of<4, false, Silu>(a, taps, c0, count, out)
         : conv_channels_of<0, false, Silu>(a, taps, c0, count, out);
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

// step: softplus(x), limited if beta is the step. x: a + dt_bias.
FN F decay_of(const RecurrenceRule& rule, F rate, F x, F step) {
  using Decay = RecurrenceRule::Decay;
  const F power = rule.decay == Decay::softplus  ? sub(zero(), mul(rate, step))
                  : rule.decay == Decay::bounded ? mul(splat(rule.bound), sigmoid(mul(rate, x)))
                                                 : sub(zero(), rate);
  return exp(power);
}
FN F beta_of(const RecurrenceRule& rule, F b, F step) {
  using Beta = RecurrenceRule::Beta;
  if (rule.beta == Beta::step) return step;
  if (rule.beta == Beta::one) return splat(1.0f);
  return rule.beta == Beta::sigmoid ? sigmoid(b) : mul(splat(2.0f), sigmoid(b));
}

// Gates of one value head, one token per lane.
static void delta_gates(const RecurrenceArgs& a, const DeltaBlock& b, int64_t head, float* decay,
                        float* beta) {
  const bool by_key = a.rule.key_decay, with_a = a.a && !by_key, with_b = a.b;
  const F rate = exp(splat(a.a_log[head])), bias = splat(with_a ? a.dt_bias[head] : 0);
  for (int64_t t = 0; t < b.count; t += kLanes) {
    const int64_t n = b.count - t < kLanes ? b.count - t : kLanes;
    float in_a[kLanes] = {}, in_b[kLanes] = {};
    for (int64_t i = 0; i < n; i++) {
      if (with_a) in_a[i] = a.a[(b.t0 + t + i) * a.value_heads + head];
      if (with_b) in_b[i] = a.b[(b.t0 + t + i) * a.value_heads + head];
    }
    const F x = add(load(in_a), bias);
    F step = softplus(x);
    if (a.rule.beta == RecurrenceRule::Beta::step)
      step = min(max(step, splat(a.rule.step_min)), splat(a.rule.step_max));
    if (!by_key) store(decay + t, decay_of(a.rule, rate, x, step));
    store(beta + t, beta_of(a.rule, load(in_b), step));
  }
}

// The decays of one value head, one key dimension per lane.
static void key_decays(const RecurrenceArgs& a, const DeltaBlock& b, int64_t head, float* decay) {
  const int64_t dk = a.key_dim;
  const F rate = exp(splat(a.a_log[head]));
  for (int64_t t = 0; t < b.count; t++) {
    for (int64_t i = 0; i < dk; i += kLanes) {
      const int64_t left = dk - i;
      F x = zero();
      if (a.a)
        x = add(load_upto(a.a + ((b.t0 + t) * a.value_heads + head) * dk + i, left),
                load_upto(a.dt_bias + head * dk + i, left));
      store_upto(decay + t * dk + i, decay_of(a.rule, rate, x, softplus(x)), left);
    }
  }
}

// Convolution, normalisation and gates.
static void delta_prepare(const RecurrenceArgs& a, const DeltaBlock& b, int64_t key_head) {
  const int64_t keys = a.key_heads * a.key_dim, values = b.heads * a.value_dim;
  const float q_factor = 1.0f / __builtin_sqrtf(static_cast<float>(a.key_dim));
  for (int64_t i = 0; i < b.count; i++) {
    float *q = b.q + i * a.key_dim, *k = b.k + i * a.key_dim;
    const float* taps[kMaxConvKernel];
    conv_taps(a, b.t0 + i, taps);
    conv_channels<true>(a, taps, key_head * a.key_dim, a.key_dim, q);
    conv_channels<true>(a, taps, keys + key_head * a.key_dim, a.key_dim, k);
    conv_channels<true>(a, taps, 2 * keys + b.begin * a.value_dim, values, b.v + i * values);
    if (!a.rule.unit_keys) continue;
    l2_normalise(q, a.key_dim, q_factor);
    l2_normalise(k, a.key_dim, 1.0f);
  }
  for (int64_t j = 0; j < b.heads; j++) {
    float* decay = b.decay + j * kDeltaTokens * decay_dim(a);
    delta_gates(a, b, b.begin + j, decay, b.beta + j * kDeltaTokens);
    if (a.rule.key_decay) key_decays(a, b, b.begin + j, decay);
  }
}

// The forms of the recurrence that differ within the loops over S, compiled apart. delta: v is corrected by
// what S holds; by_key: a decay for each row of S.
template <bool WithDelta, bool ByKey>
struct Form {
  static constexpr bool delta = WithDelta, by_key = ByKey;
};

// A token's decay: one for all rows of S, or one for each.
template <class R>
struct Decay {
  F all;
  const float* rows;
};
template <class R>
FN Decay<R> decay_at(const float* p) {
  return {splat(*p), p};
}
template <class R>
FN F row_decay(const Decay<R>& g, int64_t i) {
  return R::by_key ? splat(g.rows[i]) : g.all;
}
// k^T (g S) is the sum of key_factor(k, g, i) S[i], and g times that if there is one g for all rows.
template <class R>
FN float key_factor(const float* k, const float* g, int64_t i) {
  return R::by_key ? k[i] * g[i] : k[i];
}
template <class R>
FN F decayed_read(const Decay<R>& g, F sum) {
  return R::by_key ? sum : mul(g.all, sum);
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

// What a token multiplies the rows of S with. next, next_decay: of the token after it.
template <class R>
struct TokenKeys {
  const float *k, *q, *next, *next_decay;
  Decay<R> decay;
};

// One row i of S for one token: row = g row + k_i delta;  y += q_i row;  u += next_i row (the next token's
// k^T S, if there is a delta rule).
template <int NC, class R, Keep To>
FN void delta_row(const DeltaRows& rows, int64_t i, const TokenKeys<R>& t, const Columns<NC>& delta,
                  Columns<NC>& y, Columns<NC>& u) {
  float* s = rows.s + i * NC * kLanes;
  Columns<NC> row;
  UNROLL for (int c = 0; c < NC; c++) row.v[c] = load(s + c * kLanes);
  row = delta_update<NC>(row, t.k[i], row_decay<R>(t.decay, i), delta);
  UNROLL for (int c = 0; c < NC; c++) {
    y.v[c] = fma(splat(t.q[i]), row.v[c], y.v[c]);
    if (To != Keep::scratch) continue;
    store(s + c * kLanes, row.v[c]);
    if (R::delta) u.v[c] = fma(splat(key_factor<R>(t.next, t.next_decay, i)), row.v[c], u.v[c]);
  }
  if (To == Keep::out) store_columns<NC>(rows.out + i * rows.stride, row, rows.left);
}
template <int NC, class R, Keep To>
FN void delta_rows(const DeltaRows& rows, int64_t dk, const TokenKeys<R>& t, const Columns<NC>& delta,
                   Columns<NC> (&y)[2], Columns<NC> (&u)[2]) {
  int64_t i = 0;
  for (; i + 2 <= dk; i += 2) {
    UNROLL for (int j = 0; j < 2; j++) delta_row<NC, R, To>(rows, i + j, t, delta, y[j], u[j]);
  }
  if (i < dk) delta_row<NC, R, To>(rows, i, t, delta, y[0], u[0]);
}

// A group of columns of one head, with the data that every step of its recurrence needs.
template <int NC>
struct DeltaPiece {
  const RecurrenceArgs& a;
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
  const float* replay_decay(int64_t e) const {
    return a.window.decay + (e * a.value_heads + head) * decay_dim(a);
  }
};

// Window entries, prepared to be applied to rows of S in order, with the same operations as when they were
// tokens.
template <int NC, class R>
struct Replay {
  struct Entry {
    const float* k;
    Decay<R> decay;
    Columns<NC> delta;
  };
  Entry entries[kMaxDraftTokens];
  int64_t count;
};
template <int NC, class R>
static void make_replay(const DeltaPiece<NC>& p, Replay<NC, R>& out) {
  out.count = p.a.replay;
  for (int64_t e = 0; e < out.count; e++)
    out.entries[e] = {p.replay_k(e), decay_at<R>(p.replay_decay(e)),
                      load_columns<NC>(p.replay_delta(e), p.left())};
}
template <int NC, class R>
FN Columns<NC> replay_row(const Replay<NC, R>& replay, int64_t i, Columns<NC> row) {
  for (int64_t r = 0; r < replay.count; r++) {
    const auto& e = replay.entries[r];
    row = delta_update<NC>(row, e.k[i], row_decay<R>(e.decay, i), e.delta);
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
// first token, whose decay is `decay`.
template <int NC, class R, bool WithReplay>
static void delta_load(const DeltaPiece<NC>& p, const float* decay, Columns<NC> (&u)[2]) {
  const int64_t at = p.head * p.dk() * p.a.value_dim + p.column, dv = p.a.value_dim, left = p.left();
  const int64_t dk = p.dk();
  const float *s_in = (p.b.t0 == 0 ? p.a.s_in : p.a.s_out) + at, *k = p.b.k;
  float *s_out = p.a.s_out + at, *s = p.b.s;
  const bool fold = p.a.fold, more = p.b.count > 0;
  Replay<NC, R> replay;
  if (WithReplay) make_replay<NC, R>(p, replay);
  clear(u);
  for (int64_t i = 0; i < dk; i++) {
    if (p.b.next) fetch_state(p.b.next, p.column * dk + i * NC * kLanes, NC * kLanes);
    UNROLL for (int c = 0; c < NC; c++) __builtin_prefetch(s_in + (i + kRowsAhead) * dv + c * kLanes);
    Columns<NC> row = load_columns<NC>(s_in + i * dv, left);
    if (WithReplay) {
      row = replay_row<NC, R>(replay, i, row);
      if (fold) store_columns<NC>(s_out + i * dv, row, left);
      if (!more) continue;
    }
    UNROLL for (int c = 0; c < NC; c++) {
      store(s + (i * NC + c) * kLanes, row.v[c]);
      if (R::delta) u[i & 1].v[c] = fma(splat(key_factor<R>(k, decay, i)), row.v[c], u[i & 1].v[c]);
    }
  }
}

// Sums over Dk use two chains, even and odd rows, added at the end.
//   u = k^T S;  delta = beta (v - g u), or beta v;  S = g S + k delta^T;  y = q^T S
// The pass that updates S for one token also makes u for the next one.
template <int NC, class R>
static void delta_recur(const RecurrenceArgs& a, const DeltaBlock& b, int64_t head, int64_t column) {
  const DeltaPiece<NC> p = {a, b, head, column};
  const int64_t dk = a.key_dim, dv = a.value_dim, left = p.left(), j = head - b.begin,
                of_token = b.heads * dv;
  const int64_t decays = R::by_key ? dk : 1;
  const DeltaRows rows = {b.s, a.s_out + head * dk * dv + column, dv, left};
  const float *q = b.q, *v = b.v + j * dv + column;
  const float *decay = b.decay + j * kDeltaTokens * decays, *beta = b.beta + j * kDeltaTokens;
  Columns<NC> u[2], y[2];
  if (b.t0 == 0 && a.replay > 0)
    delta_load<NC, R, true>(p, decay, u);
  else
    delta_load<NC, R, false>(p, decay, u);
  for (int64_t t = 0; t < b.count; t++, q += dk, v += of_token, decay += decays) {
    const TokenKeys<R> keys = {p.k(t), q, p.k(t + 1), decay + decays, decay_at<R>(decay)};
    Columns<NC> delta = load_columns<NC>(v, left);
    UNROLL for (int c = 0; c < NC; c++) {
      if (R::delta) delta.v[c] = sub(delta.v[c], decayed_read<R>(keys.decay, add(u[0].v[c], u[1].v[c])));
      delta.v[c] = mul(splat(beta[t]), delta.v[c]);
    }
    if (a.draft) store_columns<NC>(p.replay_delta(a.entry + t), delta, left);
    clear(y);
    clear(u);
    if (t + 1 < b.count)
      delta_rows<NC, R, Keep::scratch>(rows, dk, keys, delta, y, u);
    else if (a.draft)
      delta_rows<NC, R, Keep::nothing>(rows, dk, keys, delta, y, u);
    else
      delta_rows<NC, R, Keep::out>(rows, dk, keys, delta, y, u);
    UNROLL for (int c = 0; c < NC; c++) y[0].v[c] = add(y[0].v[c], y[1].v[c]);
    store_columns<NC>(a.y + ((b.t0 + t) * a.value_heads + head) * dv + column, y[0], left);
  }
}

FN F gate_of(const RecurrenceArgs& a, F z) {
  return a.sigmoid_gate ? sigmoid(z) : silu(z);
}

// y = norm(y) * gate(z), n outputs.
FN void norm_and_gate(const RecurrenceArgs& a, float* y, const float* z, const float* weight, int64_t n,
                      bool gated) {
  F s = zero();
  for (int64_t i = 0; i < n; i += kLanes) {
    const F v = load_upto(y + i, n - i);
    s = fma(v, v, s);
  }
  const F inverse = splat(1.0f / __builtin_sqrtf(reduce_add(s) / static_cast<float>(n) + a.eps));
  for (int64_t i = 0; i < n; i += kLanes) {
    const int64_t left = n - i;
    const F x = mul(mul(load_upto(y + i, left), inverse), load_upto(weight + i, left));
    store_upto(y + i, gated ? mul(x, gate_of(a, load_upto(z + i, left))) : x, left);
  }
}

// Skip connection, norm of a head, gate.
static void delta_finish(const RecurrenceArgs& a, const DeltaBlock& b, int64_t head) {
  const int64_t dv = a.value_dim;
  const bool normed_first = a.rule.norm == RecurrenceRule::Norm::before_gate;
  const float* v = b.v + (head - b.begin) * dv;
  for (int64_t t = b.t0; t < b.t0 + b.count; t++, v += b.heads * dv) {
    float* y = a.y + (t * a.value_heads + head) * dv;
    const float* z = a.z + (t * a.value_heads + head) * dv;
    if (a.skip) {
      const F skip = splat(a.skip[head]);
      for (int64_t i = 0; i < dv; i += kLanes)
        store_upto(y + i, fma(skip, load_upto(v + i, dv - i), load_upto(y + i, dv - i)), dv - i);
    }
    if (normed_first && a.rule.norm_group == 0) norm_and_gate(a, y, z, a.norm_weight, dv, true);
    if (normed_first) continue;
    for (int64_t i = 0; i < dv; i += kLanes)
      store_upto(y + i, mul(load_upto(y + i, dv - i), gate_of(a, load_upto(z + i, dv - i))), dv - i);
  }
}

static void recurrence_norm(const RecurrenceArgs& a, int64_t token, int64_t group) {
  const int64_t n = a.rule.norm_group, at = token * a.value_heads * a.value_dim + group * n;
  norm_and_gate(a, a.y + at, a.z + at, a.norm_weight + group * n, n,
                a.rule.norm == RecurrenceRule::Norm::before_gate);
}

// Processes all columns of one value head.
template <class R>
static void columns_as(const RecurrenceArgs& a, const DeltaBlock& b, int64_t head) {
  int64_t c = 0;
  if constexpr (kColumnVectors > 1) {
    for (; c + kColumnVectors * kLanes <= a.value_dim; c += kColumnVectors * kLanes)
      delta_recur<kColumnVectors, R>(a, b, head, c);
  }
  for (; c < a.value_dim; c += kLanes) delta_recur<1, R>(a, b, head, c);
}
static void delta_columns(const RecurrenceArgs& a, const DeltaBlock& b, int64_t head) {
  const bool by_key = a.rule.key_decay;
  if (a.rule.delta)
    by_key ? columns_as<Form<true, true>>(a, b, head) : columns_as<Form<true, false>>(a, b, head);
  else
    by_key ? columns_as<Form<false, true>>(a, b, head) : columns_as<Form<false, false>>(a, b, head);
}

FN void copy_floats(float* to, const float* from, int64_t count) {
  __builtin_memcpy(to, from, static_cast<uint64_t>(count) * 4);
}

// Stores the tokens' entries in the window, except delta, which the recurrence stores itself.
static void delta_keep(const RecurrenceArgs& a, const DeltaBlock& b, int64_t key_head) {
  const int64_t dk = a.key_dim, keys = a.key_heads * dk, values = b.heads * a.value_dim,
                decays = decay_dim(a);
  const int64_t q_at = key_head * dk, v_at = 2 * keys + b.begin * a.value_dim;
  const bool first =
      b.begin == key_head * delta_ratio(a);  // stores what all value heads of the key head share
  for (int64_t t = 0; t < b.count; t++) {
    const int64_t e = a.entry + t;
    for (int64_t j = 0; j < b.heads; j++)
      copy_floats(a.window.decay + (e * a.value_heads + b.begin + j) * decays,
                  b.decay + (j * kDeltaTokens + t) * decays, decays);
    const float* from = a.qkv + t * a.channels;
    float* to = a.window.rows + e * a.channels;
    copy_floats(to + v_at, from + v_at, values);
    if (!first) continue;
    copy_floats(a.draft_keys + t * keys + q_at, b.k + t * dk, dk);
    copy_floats(to + q_at, from + q_at, dk);
    copy_floats(to + keys + q_at, from + keys + q_at, dk);
  }
}

static void recurrence_heads(const RecurrenceArgs& a, const HeadsTask& task, float* scratch) {
  const int64_t head_floats = a.key_dim * a.value_dim;
  DeltaBlock b = carve_block(a, task, scratch);
  const auto columns = [&](int64_t h) __attribute__((always_inline)) {
    const bool once = b.t0 == 0;  // only the first block of tokens prefetches: later ones have just written S
    b.next = !once ? nullptr : h + 1 < task.end ? a.s_in + (h + 1) * head_floats : task.next;
    delta_columns(a, b, h);
  };
  if (task.first) fetch_state(a.s_in + task.begin * head_floats, 0, head_floats);
  if (a.tokens == 0) {  // only fold
    for (int64_t h = task.begin; h < task.end; h++) columns(h);
  }
  for (; b.t0 < a.tokens; b.t0 += kDeltaTokens) {
    b.count = a.tokens - b.t0 < kDeltaTokens ? a.tokens - b.t0 : kDeltaTokens;
    delta_prepare(a, b, task.key_head);
    for (int64_t h = task.begin; h < task.end; h++) {
      columns(h);
      delta_finish(a, b, h);
    }
  }
  if (a.draft) delta_keep(a, b, task.key_head);
}

static void short_conv(const RecurrenceArgs& a, int64_t begin, int64_t end) {
  const int64_t c = a.channels;
  for (int64_t t = 0; t < a.tokens; t++) {
    const float* gate_in = a.gated ? a.gated + 3 * t * c : nullptr;
    for (int64_t i = begin; gate_in && i < end; i += kLanes)
      store_upto(a.products + t * c + i,
                 mul(load_upto(gate_in + i, end - i), load_upto(gate_in + 2 * c + i, end - i)), end - i);
    const float* taps[kMaxConvKernel];
    conv_taps(a, t, taps);
    float* y = a.y + t * c;
    conv_channels<false>(a, taps, begin, end - begin, y + begin);
    for (int64_t i = begin; gate_in && i < end; i += kLanes)
      store_upto(y + i, mul(load_upto(gate_in + c + i, end - i), load_upto(y + i, end - i)), end - i);
  }
}
