// The gated delta rule between its projections and its output norm (ops/recurrence.h has the formula).
//
// A block has COLUMNS columns of one value head's state S [DK][DV] in the registers of its first kAppliers
// threads: kParts lanes share kLaneColumns columns, and each has DK / kParts of their rows. Tokens are
// applied one by one, in one order of operations in every variant. Makers compute the next tokens' queries,
// keys, values and gates meanwhile.
//
// Functions receive the index of the thread in the block and the block's place; they use barriers 0 (kThreads
// threads), 1 and 2.
namespace delta_rule {

constexpr int DK = kVariant.key_dim, DV = kVariant.value_dim, TAPS = kVariant.taps, COLUMNS = kVariant.columns,
              MAKERS = kVariant.makers;
constexpr int kTokens = kVariant.tokens, kParts = 8, kLaneColumns = kVariant.lane_columns, kRows = DK / kParts;
constexpr int kVector = kRows % 4 == 0 ? 4 : kRows % 2 == 0 ? 2 : 1;  // adjacent rows of a lane
constexpr int kGroups = 32 / kParts;                                   // groups of columns per warp
constexpr int kChannels = 2 * DK + COLUMNS, kAppliers = COLUMNS / kLaneColumns * kParts;
constexpr int kMakers = MAKERS ? MAKERS : kAppliers, kThreads = kAppliers + MAKERS;
constexpr int kBlocks = MAKERS ? 1 : 2048 / kLaneColumns / kThreads;  // per multiprocessor, by registers
constexpr int kConvolvers = (kChannels + 31) / 32 * 32;  // of the makers; the others finish outputs
constexpr int kEach = (kChannels + kMakers - 1) / kMakers;  // channels per thread
static_assert(DK % kParts == 0 && DK <= 128 && COLUMNS % (kGroups * kLaneColumns) == 0, "");

struct Tokens {
  float q[kTokens][DK], k[kTokens][DK], v[kTokens][COLUMNS];
  float gates[kTokens][8];  // decay, beta; normalising factors of key and query, q k without them
};
// Data of applied tokens for their outputs: each part's share of q^T S, and d. Padding moves rows by 8 banks.
struct Applied {
  float asked[kTokens][kParts][COLUMNS + 8], d[kTokens][COLUMNS];
};
// The part of the problem that a block works on.
struct Place {
  int head, key_head, column0, keys, channels;
  bool owns_keys, draft;
  // The channels of the block: DK of queries, DK of keys, COLUMNS of values.
  __device__ int channel(int i) const {
    return i < DK ? key_head * DK + i : i < 2 * DK ? keys + key_head * DK + i - DK : 2 * keys + head * DV + column0 + i - 2 * DK;
  }
  __device__ bool owns(int i) const { return i >= 2 * DK || owns_keys; }
};
DEVICE Place place_of(const DeltaArgs& a, const DeltaSpan& s, int head, int column0) {
  const int ratio = a.value_heads / a.key_heads, keys = a.key_heads * DK;
  return {head, head / ratio, column0, keys, 2 * keys + a.value_heads * DV, column0 == 0 && head % ratio == 0, s.entry >= 0};
}

template <int N>
DEVICE void read(const float* from, float* to) {
  if constexpr (N == 4) {
    const float4 x = *(const float4*)from;
    to[0] = x.x, to[1] = x.y, to[2] = x.z, to[3] = x.w;
  } else if constexpr (N == 2) {
    const float2 x = *(const float2*)from;
    to[0] = x.x, to[1] = x.y;
  } else {
    to[0] = from[0];
  }
}
template <int N>
DEVICE void write(const float* from, float* to) {
  if constexpr (N == 4)
    *(float4*)to = float4{from[0], from[1], from[2], from[3]};
  else if constexpr (N == 2)
    *(float2*)to = float2{from[0], from[1]};
  else
    to[0] = from[0];
}

// One of the block's channels: a thread convolves the channel's rows one after the other.
struct Channel {
  int own, at;  // index among the block's channels, among all channels
  float taps[TAPS], before[TAPS - 1];
};
DEVICE void read_taps(const DeltaArgs& a, const Place& p, int own, Channel& c) {
  c.own = own;
  if (own >= kChannels) return;
  c.at = p.channel(own);
  if (!a.conv_weight) return;  // no tokens
#pragma unroll
  for (int j = 0; j < TAPS; j++) c.taps[j] = a.conv_weight[j * p.channels + c.at];
}
// Reads the rows before the span: those of the convolution's state, then those of replayed tokens.
DEVICE void read_before(const DeltaSpan& s, const Place& p, Channel& c) {
  if (c.own >= kChannels) return;
#pragma unroll
  for (int j = 0; j < TAPS - 1; j++) {
    const int t = j + s.replay;  // counted from the oldest row
    c.before[j] = t < TAPS - 1 ? s.conv_in[(long)t * p.channels + c.at]
                               : s.from.rows[(long)(t - (TAPS - 1)) * p.channels + c.at];
  }
}
DEVICE void write_before(const DeltaSpan& s, const Place& p, const Channel& c) {
  if (c.own >= kChannels || !p.owns(c.own)) return;
#pragma unroll
  for (int j = 0; j < TAPS - 1; j++) s.conv_out[(long)j * p.channels + c.at] = c.before[j];
}
// Reads all rows together, to wait for memory only once.
DEVICE void read_rows(const DeltaArgs& a, const DeltaSpan& s, const Place& p, const Channel& c, int first,
                      float rows[kTokens]) {
  const int tokens = s.count - first;
  if (c.own >= kChannels || tokens <= 0) return;
  const float* from = a.qkv + (long)(s.row + first) * p.channels + c.at;
  if (MAKERS && tokens >= kTokens) {
#pragma unroll
    for (int t = 0; t < kTokens; t++, from += p.channels) rows[t] = *from;
  } else {
#pragma unroll
    for (int t = 0; t < kTokens && t < tokens; t++, from += p.channels) rows[t] = *from;
  }
}
DEVICE float convolve_row(Channel& c, float row) {
  float sum = __fmul_rn(row, c.taps[TAPS - 1]);
#pragma unroll
  for (int j = TAPS - 2; j >= 0; j--) sum = __fmaf_rn(c.before[j], c.taps[j], sum);
#pragma unroll
  for (int j = 1; j < TAPS - 1; j++) c.before[j - 1] = c.before[j];
  c.before[TAPS - 2] = row;
  return silu(sum);
}
DEVICE void convolve(const DeltaSpan& s, const Place& p, Channel& c, const float rows[kTokens], int first,
                     Tokens& to) {
  if (c.own >= kChannels) return;
  const int tokens = s.count - first, stride = c.own < 2 * DK ? DK : COLUMNS;
  float* out = c.own < DK ? &to.q[0][c.own] : c.own < 2 * DK ? &to.k[0][c.own - DK] : &to.v[0][c.own - 2 * DK];
  if (MAKERS && tokens >= kTokens) {  // no branches between the loads, so that they are in flight together
#pragma unroll
    for (int t = 0; t < kTokens; t++) out[t * stride] = convolve_row(c, rows[t]);
  } else {
#pragma unroll
    for (int t = 0; t < kTokens && t < tokens; t++) out[t * stride] = convolve_row(c, rows[t]);
  }
  if (!p.draft || !p.owns(c.own)) return;
#pragma unroll
  for (int t = 0; t < kTokens && t < tokens; t++)
    s.to.rows[(long)(s.entry + first + t) * p.channels + c.at] = rows[t];
}

// Decay and beta of the tokens in this round: one warp computes all, one token per lane.
struct Gates {
  float a, b, a_log, dt_bias;
};
DEVICE void read_gates(const DeltaArgs& a, const DeltaSpan& s, const Place& p, int t, Gates& g) {
  if (t >= s.count) return;
  g.a_log = a.a_log[p.head], g.dt_bias = a.dt_bias[p.head];
  const long at = (long)(s.row + t) * a.value_heads + p.head;
  g.a = a.a[at], g.b = a.b[at];
}
DEVICE void make_gates(const DeltaArgs& a, const DeltaSpan& s, const Place& p, const Gates& g, int first, int t,
                       Tokens& to) {
  if (t >= kTokens || first + t >= s.count) return;
  const float x = g.a + g.dt_bias, softplus = x > 20.0f ? x : log1pf(expf(x));
  const float decay = expf(-expf(g.a_log) * softplus);
  to.gates[t][0] = decay;
  to.gates[t][1] = sigmoid(g.b);
  if (p.draft && p.column0 == 0) s.to.decay[(long)(s.entry + first + t) * a.value_heads + p.head] = decay;
}

// Norms of queries and keys: one warp per token, four dimensions per lane. They are applied later as factors;
// queries and keys are not changed.
DEVICE float dot4(const float a[4], const float b[4]) {
  return __fmaf_rn(a[3], b[3], __fmaf_rn(a[2], b[2], __fmaf_rn(a[1], b[1], __fmul_rn(a[0], b[0]))));
}
// The warp's sums of a, b and c, returned to its first, second and third group of eight lanes.
DEVICE float three_sums(float a, float b, float c, int lane) {
  const bool high = lane & 16, second = lane & 8;
  a = __fadd_rn(high ? c : a, __shfl_xor_sync(~0u, high ? a : c, 16));
  b = __fadd_rn(high ? 0.0f : b, __shfl_xor_sync(~0u, high ? b : 0.0f, 16));
  float sum = __fadd_rn(second ? b : a, __shfl_xor_sync(~0u, second ? a : b, 8));
#pragma unroll
  for (int i = 4; i > 0; i >>= 1) sum = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, i));
  return sum;
}
DEVICE void make_norms(const DeltaSpan& s, const Place& p, int thread, int first, Tokens& to) {
  const int lane = thread % 32, at = lane * 4, tokens = min(s.count - first, kTokens);
#pragma unroll
  for (int i = 0; i < kTokens; i += kMakers / 32) {
    const int t = i + thread / 32;
    if (t >= tokens) break;
    float q[4] = {}, k[4] = {};
    if (at < DK) read<4>(&to.q[t][at], q), read<4>(&to.k[t][at], k);
    const float sum = three_sums(dot4(k, k), dot4(q, q), dot4(q, k), lane), inverse = rsqrtf(sum + 1e-6f);
    if (lane == 0) to.gates[t][2] = inverse;
    if (lane == 8) to.gates[t][3] = __fmul_rn(inverse, rsqrtf((float)DK));
    if (lane == 16) to.gates[t][4] = sum;
    if (p.draft && p.owns_keys && at < DK)
      write<4>(k, s.to.k + (long)(s.entry + first + t) * p.keys + p.key_head * DK + at);
  }
}

// A lane's part of the state: some rows of the head, some columns of the block.
typedef float State[kRows][kLaneColumns];
DEVICE int own_part(int thread) { return thread % 32 / kGroups; }
DEVICE int own_column(int thread) { return (thread / 32 * kGroups + thread % kGroups) * kLaneColumns; }
// Its row i is row first_row() + row_offset(i) of the head.
DEVICE int first_row(int thread) { return own_part(thread) * kVector; }
DEVICE constexpr int row_offset(int i) { return i / kVector * kVector * kParts + i % kVector; }

// S = g S + key d.
DEVICE void update(const float key[kRows], const float d[kLaneColumns], float g, State state) {
#pragma unroll
  for (int i = 0; i < kRows; i++)
#pragma unroll
    for (int c = 0; c < kLaneColumns; c++) state[i][c] = __fmaf_rn(key[i], d[c], __fmul_rn(g, state[i][c]));
}
DEVICE void read_keys(const float* from, int thread, float to[kRows]) {
  from += first_row(thread);
#pragma unroll
  for (int i = 0; i < kRows; i += kVector) read<kVector>(from + row_offset(i), to + i);
}
DEVICE long state_place(const Place& p, int thread) {
  return (long)(p.head * DK + first_row(thread)) * DV + p.column0 + own_column(thread);
}

DEVICE void store_state(const DeltaSpan& s, const Place& p, int thread, const State state) {
  float* to = s.s_out + state_place(p, thread);
#pragma unroll
  for (int i = 0; i < kRows; i++) write<kLaneColumns>(state[i], to + row_offset(i) * DV);
}
// Loads the state and applies the replayed entries.
DEVICE void load_state(const DeltaArgs& a, const DeltaSpan& s, const Place& p, int thread, State state) {
  const int column = p.head * DV + p.column0 + own_column(thread);
  const float* from = s.s_in + state_place(p, thread);
#pragma unroll
  for (int i = 0; i < kRows; i++) read<kLaneColumns>(from + row_offset(i) * DV, state[i]);
  for (long entry = 0; entry < s.replay; entry++) {
    float key[kRows], d[kLaneColumns];
    read_keys(s.from.k + entry * p.keys + p.key_head * DK, thread, key);
    read<kLaneColumns>(s.from.delta + entry * a.value_heads * DV + column, d);
    update(key, d, s.from.decay[entry * a.value_heads + p.head], state);
  }
  if (p.draft && s.fold) store_state(s, p, thread, state);
}

// The data of a token that a lane reads.
struct Operands {
  float key[kRows], query[kRows], v[kLaneColumns], gates[4];
};
DEVICE void read_operands(const Tokens& from, int thread, int t, Operands& o) {
  read_keys(from.k[t], thread, o.key);
  read<4>(from.gates[t], o.gates);
  read<kLaneColumns>(&from.v[t][own_column(thread)], o.v);
  read_keys(from.q[t], thread, o.query);
}
// The lane's share of x S, for each of its columns.
DEVICE void dots(const float x[kRows], const State state, float sums[kLaneColumns]) {
  float halves[2][kLaneColumns];
#pragma unroll
  for (int i = 0; i < kRows; i++)
#pragma unroll
    for (int c = 0; c < kLaneColumns; c++)
      halves[i % 2][c] = i < 2 ? __fmul_rn(x[i], state[i][c]) : __fmaf_rn(x[i], state[i][c], halves[i % 2][c]);
#pragma unroll
  for (int c = 0; c < kLaneColumns; c++) sums[c] = kRows > 1 ? __fadd_rn(halves[0][c], halves[1][c]) : halves[0][c];
}
// Adds the shares of all parts in pairs, in the same order as added_parts().
DEVICE void add_parts(float sums[kLaneColumns]) {
#pragma unroll
  for (int step = kGroups; step < 32; step *= 2)
#pragma unroll
    for (int c = 0; c < kLaneColumns; c++) sums[c] = __fadd_rn(sums[c], __shfl_xor_sync(~0u, sums[c], step));
}
DEVICE float added_parts(const float parts[kParts][COLUMNS + 8], int column) {
  float sums[kParts];
#pragma unroll
  for (int i = 0; i < kParts; i++) sums[i] = parts[i][column];
#pragma unroll
  for (int step = 1; step < kParts; step *= 2)
#pragma unroll
    for (int i = 0; i < kParts; i += 2 * step) sums[i] = __fadd_rn(sums[i], sums[i + step]);
  return sums[0];
}

// Applies a token to the lane's part of the state. Returns d, and the lane's share of q^T S. Both products
// use the state before the token: y = q^T (g S + k d^T) = g q^T S + (q k) d. The key comes without its factor
// f, so d is multiplied by f. read_next() is called after the lanes have exchanged their sums, because its
// loads would delay them.
template <class ReadNext>
DEVICE void apply_token(const Operands& o, State state, float d[kLaneColumns], float asked[kLaneColumns],
                        const ReadNext& read_next) {
  const float g = o.gates[0], f = o.gates[2], of_v = __fmul_rn(f, o.gates[1]), of_sums = __fmul_rn(__fmul_rn(-f, of_v), g);
  float sums[kLaneColumns];
  dots(o.key, state, sums);
  add_parts(sums);
  dots(o.query, state, asked);
  read_next();
#pragma unroll
  for (int c = 0; c < kLaneColumns; c++) d[c] = __fmaf_rn(of_sums, sums[c], __fmul_rn(of_v, o.v[c]));
  update(o.key, d, g, state);
}
DEVICE float output(float asked, float d, const float gates[8]) {
  const float f = gates[3];
  return __fmaf_rn(__fmul_rn(f, gates[0]), asked, __fmul_rn(__fmul_rn(f, gates[4]), d));
}

}  // namespace delta_rule
