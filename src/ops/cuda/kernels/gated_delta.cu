// The gated delta rule between its projections and its output norm (ops/gated_delta.h has the formula). Macros: DK,
// DV (dimensions of a head), TAPS (of the convolution); COLUMNS of a block, TOKENS that it makes at a time, with MAKERS
// threads of their own or, if there are none, all: these change no result.
//
// A block has COLUMNS columns of one value head's state S [DK][DV] in the registers of its first 4 * COLUMNS threads: a
// lane has one column's rows 16 i + 4 (lane / 8) + 0..3. Tokens are applied one by one, in one order of operations,
// whoever asks. Meanwhile the other warps make the next kTokens tokens' queries, keys, values and gates.
constexpr int kTokens = TOKENS, kRows = DK / 4, kChannels = 2 * DK + COLUMNS, kAppliers = 4 * COLUMNS;
constexpr int kMakers = MAKERS ? MAKERS : kAppliers, kThreads = kAppliers + MAKERS;
constexpr int kFirstMaker = MAKERS ? kAppliers : 0;

struct Tokens {
  float q[kTokens][DK], k[kTokens][DK], v[kTokens][COLUMNS], decay[kTokens], beta[kTokens], qk[kTokens];
};

// What a block is about.
struct Place {
  int head, key_head, column0, keys, channels;
  bool owns_keys, trial;
  // The channels of the block: DK of queries, DK of keys, COLUMNS of values.
  __device__ int channel(int i) const {
    return i < DK ? key_head * DK + i : i < 2 * DK ? keys + key_head * DK + i - DK : 2 * keys + head * DV + column0 + i - 2 * DK;
  }
  __device__ bool owns(int i) const { return i >= 2 * DK || owns_keys; }
};

// Entry i of those to apply first.
DEVICE long replayed(const DeltaSpan& s, int i) { return s.replay >> 4 * i & 15; }

// Channel c of the row t of the span, or before it: tokens to apply first, then the convolution's own rows.
DEVICE float input(const DeltaArgs& a, const DeltaSpan& s, const Place& p, int t, int c) {
  if (t >= 0) return a.qkv[(long)(s.row + t) * p.channels + c];
  if (-t <= s.replay_count) return s.from.rows[replayed(s, s.replay_count + t) * p.channels + c];
  return s.conv_in[(long)(TAPS - 1 + t + s.replay_count) * p.channels + c];
}

DEVICE void convolve(const DeltaArgs& a, const DeltaSpan& s, const Place& p, int first, int tokens, Tokens& to) {
  const int thread = threadIdx.x - kFirstMaker;
  for (int i = thread; i < kChannels; i += kMakers) {
    const int c = p.channel(i);
    float taps[TAPS], x[TAPS], rows[kTokens];  // read together: one wait for memory, not one for each
#pragma unroll
    for (int t = 0; t < kTokens; t++) rows[t] = t < tokens ? a.qkv[(long)(s.row + first + t) * p.channels + c] : 0.0f;
#pragma unroll
    for (int j = 0; j < TAPS; j++) taps[j] = a.conv_weight[j * p.channels + c];
#pragma unroll
    for (int j = 1; j < TAPS; j++) x[j] = input(a, s, p, first - TAPS + j, c);
#pragma unroll
    for (int t = 0; t < kTokens; t++) {
      if (t >= tokens) break;
#pragma unroll
      for (int j = 1; j < TAPS; j++) x[j - 1] = x[j];
      x[TAPS - 1] = rows[t];
      if (p.trial && p.owns(i)) s.to.rows[(long)(s.entry + first + t) * p.channels + c] = rows[t];
      float sum = 0.0f;
#pragma unroll
      for (int j = TAPS - 1; j >= 0; j--) sum = __fmaf_rn(x[j], taps[j], sum);
      sum = silu(sum);
      if (i < DK)
        to.q[t][i] = sum;
      else if (i < 2 * DK)
        to.k[t][i - DK] = sum;
      else
        to.v[t][i - 2 * DK] = sum;
    }
  }
  if (thread < tokens) {
    const long at = (long)(s.row + first + thread) * a.value_heads + p.head;
    const float x = a.a[at] + a.dt_bias[p.head], softplus = x > 20.0f ? x : log1pf(expf(x));
    const float g = expf(-expf(a.a_log[p.head]) * softplus);
    to.decay[thread] = g;
    to.beta[thread] = sigmoid(a.b[at]);
    if (p.trial && p.column0 == 0) s.to.decay[(long)(s.entry + first + thread) * a.value_heads + p.head] = g;
  }
}

// Norms of queries and keys.
DEVICE void normalise(const DeltaSpan& s, const Place& p, int first, int tokens, Tokens& to) {
  const int thread = threadIdx.x - kFirstMaker, lane = thread % 32;
  for (int t = thread / 32; t < tokens; t += kMakers / 32) {
    float qq = 0.0f, kk = 0.0f, qk = 0.0f;
    for (int i = lane; i < DK; i += 32) {
      qq += to.q[t][i] * to.q[t][i];
      kk += to.k[t][i] * to.k[t][i];
      qk += to.q[t][i] * to.k[t][i];
    }
    const float q_factor = rsqrtf(warp_sum(qq) + 1e-6f) * rsqrtf((float)DK), k_factor = rsqrtf(warp_sum(kk) + 1e-6f);
    qk = warp_sum(qk) * q_factor * k_factor;
    if (lane == 0) to.qk[t] = qk;
    for (int i = lane; i < DK; i += 32) {
      to.q[t][i] *= q_factor;
      to.k[t][i] *= k_factor;
      if (p.trial && p.owns_keys) s.to.k[(long)(s.entry + first + t) * p.keys + p.key_head * DK + i] = to.k[t][i];
    }
  }
}

// Four of the lane's rows: S = g S + key d.
DEVICE void update(float4 key, float d, float g, float state[4]) {
  state[0] = __fmaf_rn(key.x, d, __fmul_rn(g, state[0]));
  state[1] = __fmaf_rn(key.y, d, __fmul_rn(g, state[1]));
  state[2] = __fmaf_rn(key.z, d, __fmul_rn(g, state[2]));
  state[3] = __fmaf_rn(key.w, d, __fmul_rn(g, state[3]));
}

// Applies tokens [begin, end) to the lane's part of the state. Both products with S are of the state before the token:
// q^T (g S + k d^T) = g q^T S + (q k) d.
DEVICE void apply_tokens(const DeltaArgs& a, const DeltaSpan& s, const Place& p, int first, int begin, int end,
                         const Tokens& from, float state[kRows]) {
  const int lane = threadIdx.x % 32, quarter = lane / 8, own = threadIdx.x / 32 * 8 + lane % 8;
  const int values = a.value_heads * DV;
  const long column = p.head * DV + p.column0 + own;
  for (int t = begin; t < end; t++) {
    float4 key[kRows / 4];
    float read[4] = {}, ask[4] = {};
#pragma unroll
    for (int i = 0; i < kRows / 4; i++) {
      key[i] = *(const float4*)&from.k[t][i * 16 + quarter * 4];
      const float4 query = *(const float4*)&from.q[t][i * 16 + quarter * 4];
      read[0] = __fmaf_rn(key[i].x, state[4 * i], read[0]);
      read[1] = __fmaf_rn(key[i].y, state[4 * i + 1], read[1]);
      read[2] = __fmaf_rn(key[i].z, state[4 * i + 2], read[2]);
      read[3] = __fmaf_rn(key[i].w, state[4 * i + 3], read[3]);
      ask[0] = __fmaf_rn(query.x, state[4 * i], ask[0]);
      ask[1] = __fmaf_rn(query.y, state[4 * i + 1], ask[1]);
      ask[2] = __fmaf_rn(query.z, state[4 * i + 2], ask[2]);
      ask[3] = __fmaf_rn(query.w, state[4 * i + 3], ask[3]);
    }
    float sum = (read[0] + read[1]) + (read[2] + read[3]), out = (ask[0] + ask[1]) + (ask[2] + ask[3]);
    sum += __shfl_xor_sync(~0u, sum, 8);
    out += __shfl_xor_sync(~0u, out, 8);
    sum += __shfl_xor_sync(~0u, sum, 16);
    out += __shfl_xor_sync(~0u, out, 16);
    const float g = from.decay[t];
    const float d = from.beta[t] * __fmaf_rn(-g, sum, from.v[t][own]);
#pragma unroll
    for (int i = 0; i < kRows / 4; i++) update(key[i], d, g, state + 4 * i);
    if (quarter > 0) continue;
    a.y[(long)(s.row + first + t) * values + column] = __fmaf_rn(g, out, __fmul_rn(from.qk[t], d));
    if (p.trial) s.to.delta[(long)(s.entry + first + t) * values + column] = d;
  }
}

KERNEL __launch_bounds__(kThreads, MAKERS ? 1 : 3) delta(const __grid_constant__ DeltaArgs a) {
  __shared__ __align__(16) Tokens blocks[MAKERS ? 2 : 1];
  let_next_start();
  const DeltaSpan& s = a.span[blockIdx.z];
  const int ratio = a.value_heads / a.key_heads;
  Place p;
  p.head = blockIdx.y;
  p.key_head = p.head / ratio;
  p.column0 = blockIdx.x * COLUMNS;
  p.keys = a.key_heads * DK;
  p.channels = 2 * p.keys + a.value_heads * DV;
  p.owns_keys = blockIdx.x == 0 && p.head % ratio == 0;
  p.trial = s.entry >= 0;
  const bool applies = threadIdx.x < kAppliers;
  const int lane = threadIdx.x % 32, quarter = lane / 8;
  const long column = p.column0 + threadIdx.x / 32 * 8 + lane % 8, place = (long)p.head * DK * DV + column;

  for (int i = threadIdx.x; i < DK * COLUMNS / 32; i += kThreads)
    prefetch(s.s_in + (long)(p.head * DK + i / (COLUMNS / 32)) * DV + p.column0 + i % (COLUMNS / 32) * 32);
  for (int i = threadIdx.x; i < kChannels && s.count > 0; i += kThreads) {
    for (int j = 0; j < TAPS; j++) prefetch(a.conv_weight + j * p.channels + p.channel(i));
    for (int j = 0; j < TAPS - 1; j++) prefetch(s.conv_in + (long)j * p.channels + p.channel(i));
  }
  wait_for_previous();

  float state[kRows];
  const auto load = [&] {
#pragma unroll
    for (int i = 0; i < kRows; i++) state[i] = s.s_in[place + (i / 4 * 16 + quarter * 4 + i % 4) * DV];
    for (int e = 0; e < s.replay_count; e++) {
      const long entry = replayed(s, e);
      const float* keys = s.from.k + entry * p.keys + p.key_head * DK + quarter * 4;
      const float d = s.from.delta[entry * a.value_heads * DV + p.head * DV + column];
      const float g = s.from.decay[entry * a.value_heads + p.head];
#pragma unroll
      for (int i = 0; i < kRows / 4; i++) update(*(const float4*)(keys + i * 16), d, g, state + 4 * i);
    }
    if (p.trial && s.fold)
#pragma unroll
      for (int i = 0; i < kRows; i++) s.s_out[place + (i / 4 * 16 + quarter * 4 + i % 4) * DV] = state[i];
  };
  if (MAKERS) {
    if (applies) load();
    // Most tokens are applied while the next are convolved, the rest while these are normalised.
    const int rounds = (s.count + kTokens - 1) / kTokens;
    for (int round = 0; round <= rounds && rounds > 0; round++) {
      const int next = round * kTokens, made = min(kTokens, s.count - next);
      const int first = next - kTokens, tokens = round > 0 ? min(kTokens, s.count - first) : 0;
      const int most = min(tokens, kTokens * 3 / 4);
      if (applies)
        apply_tokens(a, s, p, first, 0, most, blocks[(round + 1) % 2], state);
      else if (made > 0)
        convolve(a, s, p, next, made, blocks[round % 2]);
      __syncthreads();
      if (applies)
        apply_tokens(a, s, p, first, most, tokens, blocks[(round + 1) % 2], state);
      else if (made > 0)
        normalise(s, p, next, made, blocks[round % 2]);
      __syncthreads();
    }
  } else {  // no more than kTokens: made first, so that their making has all registers
    convolve(a, s, p, 0, s.count, blocks[0]);
    load();
    __syncthreads();
    normalise(s, p, 0, s.count, blocks[0]);
    __syncthreads();
    apply_tokens(a, s, p, 0, 0, s.count, blocks[0], state);
  }
  if (applies && !p.trial)
#pragma unroll
    for (int i = 0; i < kRows; i++) s.s_out[place + (i / 4 * 16 + quarter * 4 + i % 4) * DV] = state[i];
  if (p.trial && !s.fold) return;
  const int applied = p.trial ? 0 : s.count;
  for (int i = threadIdx.x; i < kChannels; i += kThreads) {
    if (!p.owns(i)) continue;
    for (int j = 0; j < TAPS - 1; j++)
      s.conv_out[(long)j * p.channels + p.channel(i)] = input(a, s, p, applied - (TAPS - 1) + j, p.channel(i));
  }
}
