// Common code of the attention kernels. D is the head's size, a multiple of 32.
//
// Keys and values of a block of 256 positions are f16, in the layout used in shared memory: rows of 64
// numbers (keys: of 32 if D is not a multiple of 64):
//   keys   [kv heads][2 parts][D / kWide][128 positions][kWide]
//   values [kv heads][2 parts][2 halves of the part][D][64 positions]
// Within a row, chunks of 16 bytes are permuted by the row's number, like wgmma's swizzle, so that the same
// chunk of 8 rows covers all banks. If values are a part of the keys, only keys are kept.
//
// A part is kPart positions on an absolute grid. Query rows (positions times the heads that share keys) are
// multiplied with a part on the tensor cores, 16 inputs at a time in order. This gives the part's largest
// score, the sum of its weights and its weighted values. Parts are joined in order. All kernels use the same
// operations: a row's result depends neither on other rows nor on the kernel that computed it.
DEVICE constexpr int values_in_keys(const AttentionVariant& variant) { return variant.values; }
DEVICE constexpr int values_in_keys(const AttentionManyVariant&) { return 0; }
constexpr int D = kVariant.head_dim;
constexpr bool kInKeys = values_in_keys(kVariant) > 0;      // values are a part of the keys
constexpr int V = kInKeys ? values_in_keys(kVariant) : D;  // dimensions of a result: the last V of D
constexpr int kBlock = 256;
constexpr int kWide = D % 64 == 0 ? 64 : 32;
constexpr int kPartBytes = D * kPart * 2;  // a head's keys or values of a part

// The index of (row, column) in a tile of rows of WIDE numbers.
template <int WIDE>
DEVICE int swizzled(int row, int column) {
  const int turn = WIDE == 64 ? row % 8 : row / 2 % 4;
  return row * WIDE + (column / 8 ^ turn) * 8 + column % 8;
}
DEVICE long key_place(int head, int column, int d) {
  const int tile = (head * 2 + column / kPart) * (D / kWide) + d / kWide;
  return (long)tile * kPart * kWide + swizzled<kWide>(column % kPart, d % kWide);
}
DEVICE long value_place(int head, int column, int d) {
  return (long)(head * 4 + column / 64) * D * 64 + swizzled<64>(d, column % 64);
}

DEVICE const AttendSpan* spans_of(const AttendArgs& a) { return a.span_table ? a.span_table : a.span; }
// The last span whose `first` is at most `value`.
DEVICE const AttendSpan& find_span(const AttendArgs& a, int AttendSpan::*first, int value) {
  const AttendSpan* spans = spans_of(a);
  int low = 0, high = a.spans - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (value >= spans[middle].*first)
      low = middle;
    else
      high = middle - 1;
  }
  return spans[low];
}
DEVICE u64 block_address(const AttendArgs& a, int pair, int which) {
  return a.table ? a.table[2 * pair + which] : a.pairs[2 * pair + which];
}
// The address of a head's keys (0) or values (1) of a part.
DEVICE const u8* part_address(const AttendArgs& a, const AttendSpan& s, int kv_head, int part, int which) {
  return (const u8*)block_address(a, s.first_pair + part / 2, which) + (long)(kv_head * 2 + part % 2) * kPartBytes;
}

// A query sees positions up to the larger of its own position and this.
DEVICE int seen_by_all(const AttendSpan& s) { return s.whole ? s.length - 1 : -1; }

constexpr u32 kNothing = 0xFF800000u;  // -infinity: no visible position
DEVICE float nothing() { return __uint_as_float(kNothing); }

// Processes scores of TILES times 8 positions from `first` on, laid out as fragments: caps them, and masks
// positions that the queries of rows r and r + 8, at own[], do not see. by_all: seen_by_all().
template <int TILES>
DEVICE void see(const AttendArgs& a, float scores[TILES * 4], int first, const int own[2], int by_all) {
  if (a.soft_cap > 0.0f) {
    const float factor = a.scale / a.soft_cap;
#pragma unroll
    for (int i = 0; i < TILES * 4; i++) scores[i] = a.soft_cap * tanhf(scores[i] * factor);
  }
  const int q = threadIdx.x % 4;
#pragma unroll
  for (int i = 0; i < TILES * 4; i++) {
    const int position = first + i / 4 * 8 + 2 * q + i % 2, at = own[i % 4 / 2];
    if (position > max(at, by_all) || (a.window > 0 && position <= at - a.window)) scores[i] = nothing();
  }
}
// Whether queries at positions [first, last] see the whole part, and scores are not capped.
DEVICE bool plain_part(const AttendArgs& a, int part, int first, int last, int by_all) {
  return part * kPart + kPart - 1 <= max(first, by_all) && (a.window <= 0 || part * kPart > last - a.window) && a.soft_cap <= 0.0f;
}
// Weights are 2^(score * factor - m), where m is the part's largest score times factor.
DEVICE float score_factor(const AttendArgs& a) { return a.soft_cap > 0.0f ? 1.0f : a.scale; }
DEVICE float weight_of(float score, float factor, float m) { return exp2_fast(__fmaf_rn(score, factor, -m)); }

// Joins a part (m, sum, values) to the total of the parts before it, which is -infinity and zeros for the
// first part. join() updates the largest score; joined() then adds each number of the part to its total.
struct Joint {
  float keep, add;
};
DEVICE Joint join(float& largest, float m) {
  const float both = fmaxf(largest, m);
  const Joint j = {exp2_fast(largest - both), exp2_fast(m - both)};
  largest = both;
  return j;
}
DEVICE float joined(Joint j, float old, float more) { return __fmaf_rn(more, j.add, __fmul_rn(old, j.keep)); }

// The sum of a row's weights with that of its head's sink. largest: the largest score, in powers of two.
DEVICE float sum_with_sink(const AttendArgs& a, int head, float largest, float sum) {
  return a.sinks ? sum + exp2_fast(__fmaf_rn(a.sinks[head], 1.4426950408889634f, -largest)) : sum;
}

// Stores the result of a row's head from shared memory; executed by one warp.
constexpr int kResultStride = D + 8;  // puts the fragments' rows into different banks
DEVICE void store(const AttendArgs& a, int row, int head, int d, float2 y) {
  d -= D - V;
  if (kInKeys && d < 0) return;
  if (a.out) *(float2*)(a.out + ((long)row * a.heads + head) * V + d) = y;
  if (a.tiles) *(u32*)(a.tiles + tile_index(row, head * V + d, a.tiles_rows)) = pack_bf16(y.x, y.y);
}
DEVICE void store_row(const AttendArgs& a, int row, int head, const float* results) {
  const int lane = threadIdx.x % 32;
  const float* gates = a.gate + ((long)row * a.heads + head) * D;
#pragma unroll
  for (int d = 2 * lane; d < D; d += 64) {
    float2 y = *(const float2*)(results + d);
    if (a.gate) {
      const float2 gate = *(const float2*)(gates + d);
      y = make_float2(y.x * sigmoid(gate.x), y.y * sigmoid(gate.y));
    }
    store(a, row, head, d, y);
  }
}
