// Attention kernels. Included through kernels.inl.
//
// Every block of 256 positions has its own partial result (maximum m, sum l, accumulator o), which is merged
// into the running result in block order. So grouping of rows and assignment of blocks to threads do not
// change a result:
//   scores: s_j = sum over d of (q_d * scale * log2 e) k_jd, in the order of d;  m = max s_j
//   probabilities: p_j = 2^(s_j - m), 0 where masked;  l = sum of p_j (lane sums in order, then reduce_add)
//   values: o = sum over j of p_j v_j, in the order of j
//   merge: m' = max(m1, m2);  l' = l1 2^(m1 - m') + l2 2^(m2 - m');  o' likewise
//   finish: o / l; an attention sink is merged into l alone (factor_with_sink)
// A masked position adds p v = 0, which can only turn -0 into +0; attention_finish does so for all positions.
// (This requires finite v: f16 keys and values saturate; with fp32 ones an infinite v reaches rows of its
// tile that cannot see it.)
//
// Both products are outer products over tiles [k][16 lanes] that are stored in the order in which they are
// read: a key tile is [D][16 positions], a value tile [256 positions][16 dims].

constexpr int kAttentionRows = 6;
constexpr int64_t kBlock = 256;
constexpr float kMinusInfinity = -__builtin_inff();

FN int64_t padded(int64_t n) {
  return (n + kLanes - 1) / kLanes * kLanes;
}
FN int64_t padded_dim(const AttentionArgs& a) {
  return padded(a.value_dim);
}

// Number of adjacent tiles for MR rows: enough accumulators to hide the latency of fma, few enough for the
// registers.
constexpr int tiles_for(int rows) {
  const int registers = kNatives == 2 ? 12 : 24, one = rows * kNatives;
  return kNatives > 4 ? 1 : 4 * one <= registers ? 4 : 2 * one <= registers ? 2 : 1;
}

FN NativeF native_value(const float* p) {
  return nf_load(p);
}
FN NativeF native_value(const uint16_t* p) {
  return nf_load_f16(p);
}

// Tiles that are converted to f32 at a time when many rows read them.
constexpr int64_t kConvertedTiles = tiles_for(kAttentionRows);

// Prefetches the cache line `ahead` bytes after p into the L2 cache.
FN void fetch(const void* p, uintptr_t ahead) {
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(p) + ahead), 0, 2);
}

// acc[p][i] = sum over k in [k0, k1) of A(i, k) * tile p of B at k, in the order of k, where A(i, k) = a[i *
// RowStride + k * ColumnStride]; tiles of B are `stride` elements apart. Also prefetches the data `ahead`
// bytes further (f16 only: f32 tiles do not come straight from memory).
template <int MR, int NP, int RowStride, int ColumnStride, class T>
FN void outer_product(F (&acc)[NP][MR], const float* a, const T* b, int64_t stride, int64_t k0, int64_t k1,
                      uintptr_t ahead) {
  UNROLL for (int p = 0; p < NP; p++) UNROLL for (int i = 0; i < MR; i++) acc[p][i] = zero();
  for (int64_t k = k0; k < k1; k++) {
    const float* x = a + k * ColumnStride;
    if constexpr (NP == 1) {
      const F v = load_value(b + k * kLanes);
      UNROLL for (int i = 0; i < MR; i++) acc[0][i] = fma(splat(x[i * RowStride]), v, acc[0][i]);
    } else {  // 16 registers on AVX2: MR splats, one vector of B, the rest accumulators
      NativeF s[MR];
      UNROLL for (int i = 0; i < MR; i++) s[i] = nf_set1(x[i * RowStride]);
      UNROLL for (int p = 0; p < NP; p++) UNROLL for (int n = 0; n < kNatives; n++) {
        const NativeF v = native_value(b + p * stride + k * kLanes + n * kNativeLanes);
        UNROLL for (int i = 0; i < MR; i++) acc[p][i].v[n] = nf_fma(s[i], v, acc[p][i].v[n]);
      }
    }
    if (sizeof(T) == 2 && k % 2 == 0) {  // two steps of f16 are a cache line
      UNROLL for (int p = 0; p < NP; p++) fetch(b + p * stride + k * kLanes, ahead);
    }
  }
}

// Computes scores[i * 256 + 16 t ..] of MR rows for key tiles t in [t0, t1); k points to tile t0, q is
// [D][MR].
template <int MR, class T, int NP = tiles_for(MR)>
static void scores(float* scores_out, const float* q, const T* k, int64_t d, int64_t t0, int64_t t1,
                   uintptr_t ahead) {
  for (; t0 + NP <= t1; t0 += NP, k += NP * d * kLanes) {
    F acc[NP][MR];
    outer_product<MR, NP, 1, MR>(acc, q, k, d * kLanes, 0, d, ahead);
    UNROLL for (int p = 0; p < NP; p++) UNROLL for (int i = 0; i < MR; i++)
        store(scores_out + i * kBlock + (t0 + p) * kLanes, acc[p][i]);
  }
  if constexpr (NP > 1) {
    if (t0 < t1) scores<MR, T, NP / 2>(scores_out, q, k, d, t0, t1, ahead);
  }
}

// o = o * keep + (sum over j in [lo, hi) of p_j v_j) * take for MR rows and value tiles [t0, t1); v points to
// tile t0.
template <int MR, class T, int NP = tiles_for(MR)>
static void values(float* o, int64_t dp, const float* p, const T* v, int64_t lo, int64_t hi,
                   const float* keep, const float* take, int64_t t0, int64_t t1, uintptr_t ahead) {
  for (; t0 + NP <= t1; t0 += NP, v += NP * kBlock * kLanes) {
    F acc[NP][MR];
    outer_product<MR, NP, kBlock, 1>(acc, p, v, kBlock * kLanes, lo, hi, ahead);
    UNROLL for (int i = 0; i < MR; i++) {
      const F c1 = splat(keep[i]), c2 = splat(take[i]);
      UNROLL for (int n = 0; n < NP; n++) {
        float* to = o + i * dp + (t0 + n) * kLanes;
        store(to, fma(load(to), c1, mul(acc[n][i], c2)));
      }
    }
  }
  if constexpr (NP > 1) {
    if (t0 < t1) values<MR, T, NP / 2>(o, dp, p, v, lo, hi, keep, take, t0, t1, ahead);
  }
}

template <class T>
struct TileKernels {
  using Scores = void (*)(float*, const float*, const T*, int64_t, int64_t, int64_t, uintptr_t);
  using Values = void (*)(float*, int64_t, const float*, const T*, int64_t, int64_t, const float*,
                          const float*, int64_t, int64_t, uintptr_t);
  static constexpr Scores kScores[] = {scores<1, T>, scores<2, T>, scores<3, T>,
                                       scores<4, T>, scores<5, T>, scores<6, T>};
  static constexpr Values kValues[] = {values<1, T>, values<2, T>, values<3, T>,
                                       values<4, T>, values<5, T>, values<6, T>};
};

// Visible positions within a block, empty when hi <= lo: those of one row, or those of any row of a range.
struct Visible {
  int64_t lo, hi;
};
FN Visible visible_in(const AttentionArgs& a, int64_t row, int64_t block) {
  const int64_t position = a.first_position + row / (a.heads / a.kv_heads), start = block * kBlock;
  const int64_t end = a.whole ? a.first_position + a.tokens : position + 1;
  Visible v;
  v.hi = end - start < kBlock ? end - start : kBlock;
  v.lo = a.window > 0 && position + 1 - a.window > start ? position + 1 - a.window - start : 0;
  return v;
}
// Positions that any row of [row_begin, row_end) sees: the first row has the lowest lo, the last one the
// highest hi.
FN Visible visible_in(const AttentionArgs& a, int64_t row_begin, int64_t row_end, int64_t block) {
  return {visible_in(a, row_begin, block).lo, visible_in(a, row_end - 1, block).hi};
}

// Rows are processed in tiles of nearly equal height: tile t is rows [row_of(t), row_of(t + 1)).
struct RowTiles {
  int64_t rows, count;
  int64_t row_of(int64_t t) const { return t * rows / count; }
};
FN RowTiles row_tiles(int64_t rows) {
  return {rows, (rows + kAttentionRows - 1) / kAttentionRows};
}

// s = cap tanh(s / cap) of vectors [n0, n1), where the scores are in units of 1 / log2 e.
FN void cap_scores(float* scores, float soft_cap, int64_t n0, int64_t n1) {
  const F cap = splat(soft_cap * 1.44269504f), inverse = splat(1.0f / (soft_cap * 1.44269504f));
  for (int64_t n = n0; n < n1; n += kLanes) store(scores + n, mul(cap, tanh(mul(load(scores + n), inverse))));
}

// Turns the scores of one row into p in place, vectors [n0, n1).
FN void softmax_row(float* scores, Visible v, int64_t n0, int64_t n1, float* max_out, float* sum_out) {
  const F none = splat(kMinusInfinity);
  if (v.lo > n0 || v.hi < n1) {
    alignas(64) static const float kIndex[kLanes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const F index = load(kIndex), lo = splat(static_cast<float>(v.lo)), hi = splat(static_cast<float>(v.hi));
    for (int64_t n = n0; n < n1; n += kLanes) {
      const F at = add(index, splat(static_cast<float>(n)));
      const F s = select_lt(at, hi, load(scores + n), none);
      store(scores + n, select_lt(at, lo, none, s));
    }
  }
  F most = none;
  for (int64_t n = n0; n < n1; n += kLanes) most = max(load(scores + n), most);
  const float m = reduce_max(most);
  const F shift = splat(m == kMinusInfinity ? 0 : m);  // nothing visible: all p are 0
  F sum = zero();
  for (int64_t n = n0; n < n1; n += kLanes) {
    const F p = exp2(sub(load(scores + n), shift));
    store(scores + n, p);
    sum = add(sum, p);
  }
  *max_out = m;
  *sum_out = reduce_add(sum);
}

// Merges maxima and sums of 16 rows; the accumulators are then merged with o = o * keep + from * take.
FN void merge_scales(float* max_into, float* sum_into, const float* max_from, const float* sum_from,
                     float* keep, float* take) {
  const F m1 = load(max_into), m2 = load(max_from), m = max(m1, m2);
  const F shift = select_lt(splat(kMinusInfinity), m, m, zero());
  const F c1 = exp2(sub(m1, shift)), c2 = exp2(sub(m2, shift));
  store(max_into, m);
  store(sum_into, fma(load(sum_into), c1, mul(load(sum_from), c2)));
  store(keep, c1);
  store(take, c2);
}

static int64_t attention_scratch_floats(const AttentionArgs& a, int64_t rows) {
  const int64_t tile = a.head_dim > kBlock ? a.head_dim : kBlock;
  return rows * kBlock + 4 * padded(rows) + kConvertedTiles * kLanes * tile;
}

// Packs the scaled q rows of a kv head into tiles [D][tile height].
static void attention_pack(const AttentionArgs& a, int64_t kv_head, int64_t row_begin, int64_t row_end,
                           float* to) {
  const int64_t d = a.head_dim, per_kv = a.heads / a.kv_heads;
  const float scale = a.scale * 1.44269504f;  // log2 e
  const RowTiles tiles = row_tiles(row_end - row_begin);
  for (int64_t t = 0; t < tiles.count; t++) {
    const int64_t begin = tiles.row_of(t), height = tiles.row_of(t + 1) - begin;
    for (int64_t i = 0; i < height; i++) {
      const int64_t r = row_begin + begin + i;
      const float* from = a.q + ((r / per_kv) * a.heads + kv_head * per_kv + r % per_kv) * d;
      for (int64_t j = 0; j < d; j++) to[begin * d + j * height + i] = from[j] * scale;
    }
  }
}

// Converts f16 numbers to f32, and prefetches the data `ahead` bytes further. count is a multiple of 16.
FN void convert(const uint16_t* from, float* to, int64_t count, uintptr_t ahead) {
  for (int64_t i = 0; i < count; i += kLanes) {
    if (i % (2 * kLanes) == 0) fetch(from + i, ahead);
    store(to + i, load_f16(from + i));
  }
}

// Converts the key tile at `from`, [dims][16 positions], to rows [16 positions][16 dims]; dims beyond `dims`
// are 0.
template <class T>
static void transpose(const T* from, int64_t dims, float* to) {
  alignas(64) float tile[kLanes * kLanes];
  for (int64_t i = 0; i < kLanes; i++)
    store(tile + i * kLanes, i < dims ? load_value(from + i * kLanes) : zero());
  for (int64_t j = 0; j < kLanes; j += 4) {
    F columns[4];
    load_columns(tile + j, kLanes, columns);
    UNROLL for (int n = 0; n < 4; n++) store(to + (j + n) * kLanes, columns[n]);
  }
}

// One block of one kv head for rows [begin, end): the data shared by the steps below.
struct BlockTask {
  const AttentionArgs& a;
  int64_t begin, end, block;
  const float* q;    // packed
  float* p;          // [rows, 256]: scores, then probabilities
  float* converted;  // tiles in f32
  Visible seen;      // by any row
  RowTiles tiles;

  Visible visible(int64_t t) const {
    return visible_in(a, begin + tiles.row_of(t), begin + tiles.row_of(t + 1), block);
  }
  int64_t height(int64_t t) const { return tiles.row_of(t + 1) - tiles.row_of(t); }
};

FN int64_t larger(int64_t a, int64_t b) {
  return a > b ? a : b;
}
FN int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

// Computes key tiles [t0, t1), which start at k, for all rows that see them.
template <class T>
static void score_step(const BlockTask& task, const T* k, int64_t t0, int64_t t1, uintptr_t ahead) {
  const int64_t d = task.a.head_dim;
  for (int64_t t = 0; t < task.tiles.count; t++) {
    const Visible v = task.visible(t);
    const int64_t first = larger(t0, v.lo / kLanes), last = smaller(t1, (v.hi + kLanes - 1) / kLanes);
    if (first >= last) continue;
    const int64_t row = task.tiles.row_of(t);
    TileKernels<T>::kScores[task.height(t) - 1](task.p + row * kBlock, task.q + row * d,
                                                k + (first - t0) * d * kLanes, d, first, last, ahead);
  }
}

// Computes value tiles [t0, t1), which start at v.
template <class T>
static void value_step(const BlockTask& task, float* acc, const T* v, const float* keep, const float* take,
                       int64_t t0, int64_t t1, uintptr_t ahead) {
  const int64_t dp = padded_dim(task.a);
  for (int64_t t = 0; t < task.tiles.count; t++) {
    const Visible seen = task.visible(t);
    const int64_t row = task.tiles.row_of(t);
    if (seen.lo < seen.hi)  // otherwise the row's sums do not change
      TileKernels<T>::kValues[task.height(t) - 1](acc + row * dp, dp, task.p + row * kBlock, v, seen.lo,
                                                  seen.hi, keep + row, take + row, t0, t1, ahead);
  }
}

FN void softmax_rows(const BlockTask& task, float* max, float* sum) {
  for (int64_t r = 0; r < padded(task.tiles.rows); r += kLanes) {
    store(max + r, splat(kMinusInfinity));
    store(sum + r, zero());
  }
  for (int64_t t = 0; t < task.tiles.count; t++) {
    const Visible v = task.visible(t);
    const int64_t n0 = v.lo / kLanes * kLanes, n1 = (v.hi + kLanes - 1) / kLanes * kLanes;
    if (v.lo >= v.hi) continue;
    for (int64_t r = task.tiles.row_of(t); r < task.tiles.row_of(t + 1); r++) {
      if (task.a.soft_cap > 0) cap_scores(task.p + r * kBlock, task.a.soft_cap, n0, n1);
      softmax_row(task.p + r * kBlock, visible_in(task.a, task.begin + r, task.block), n0, n1, max + r,
                  sum + r);
    }
  }
}

// Computes all value tiles. Values that are a part of the keys at k are converted to tiles of their own
// first.
template <class T>
static void value_steps_of_keys(const BlockTask& task, const T* k, const AttentionPartial& into,
                                const float* keep, const float* take) {
  const AttentionArgs& a = task.a;
  const int64_t d = a.head_dim, groups = padded_dim(a) / kLanes;
  const int64_t first = task.seen.lo / kLanes, last = (task.seen.hi + kLanes - 1) / kLanes;
  for (int64_t g = 0; g < groups; g += kConvertedTiles) {
    const int64_t end = smaller(groups, g + kConvertedTiles);
    for (int64_t p = first; p < last; p++)
      for (int64_t t = g; t < end; t++)
        transpose(k + (p * d + d - a.value_dim + t * kLanes) * kLanes, a.value_dim - t * kLanes,
                  task.converted + ((t - g) * kBlock + p * kLanes) * kLanes);
    value_step<float>(task, into.acc, task.converted, keep, take, g, end, 0);
  }
}

template <class T>
static void attention_block_of(const BlockTask& task, const T* k, const T* v, const T* next_k,
                               const AttentionPartial& into, float* scales) {
  const int64_t d = task.a.head_dim, n = padded(task.tiles.rows), groups = padded_dim(task.a) / kLanes;
  float *max = scales, *sum = scales + n, *keep = scales + 2 * n, *take = scales + 3 * n;
  // Few rows: every row tile converts each tile again, in registers.
  const uintptr_t to_values = reinterpret_cast<uintptr_t>(v ? v : next_k) - reinterpret_cast<uintptr_t>(k);
  const uintptr_t to_next = reinterpret_cast<uintptr_t>(next_k) - reinterpret_cast<uintptr_t>(v);
  const bool direct = sizeof(T) == 4 || task.tiles.count <= 2;
  const int64_t first = task.seen.lo / kLanes, last = (task.seen.hi + kLanes - 1) / kLanes;
  if (direct) {
    score_step(task, k + first * d * kLanes, first, last, to_values);
  } else if constexpr (sizeof(T) == 2) {
    for (int64_t t = first; t < last; t += kConvertedTiles) {
      const int64_t end = smaller(last, t + kConvertedTiles);
      convert(k + t * d * kLanes, task.converted, (end - t) * d * kLanes, to_values);
      score_step<float>(task, task.converted, t, end, 0);
    }
  }
  softmax_rows(task, max, sum);
  for (int64_t r = 0; r < n; r += kLanes)
    merge_scales(into.max + r, into.sum + r, max + r, sum + r, keep + r, take + r);
  if (!v) {
    value_steps_of_keys(task, k, into, keep, take);
  } else if (direct) {
    value_step(task, into.acc, v, keep, take, 0, groups, to_next);
  } else if constexpr (sizeof(T) == 2) {
    for (int64_t g = 0; g < groups; g += kConvertedTiles) {
      const int64_t end = smaller(groups, g + kConvertedTiles);
      for (int64_t t = g; t < end; t++)
        convert(v + (t * kBlock + first * kLanes) * kLanes,
                task.converted + ((t - g) * kBlock + first * kLanes) * kLanes,
                (last - first) * kLanes * kLanes, to_next);
      value_step<float>(task, into.acc, task.converted, keep, take, g, end, 0);
    }
  }
}

static void attention_block(const AttentionArgs& a, int64_t kv_head, int64_t row_begin, int64_t row_end,
                            int64_t block, const float* q, const void* next_keys,
                            const AttentionPartial& into, float* scratch) {
  const int64_t rows = row_end - row_begin, n = padded(rows);
  float *scales = scratch, *p = scratch + 4 * n;
  const BlockTask task = {a,
                          row_begin,
                          row_end,
                          block,
                          q,
                          p,
                          p + rows * kBlock,
                          visible_in(a, row_begin, row_end, block),
                          row_tiles(rows)};
  if (task.seen.hi <= task.seen.lo) return;
  const int64_t k_at = kv_head * a.head_dim * kBlock, v_at = kv_head * padded_dim(a) * kBlock;
  if (a.half) {
    const auto* k = static_cast<const uint16_t*>(a.k_blocks[block]) + k_at;
    const auto* v = a.v_blocks ? static_cast<const uint16_t*>(a.v_blocks[block]) + v_at : nullptr;
    const auto* next = static_cast<const uint16_t*>(next_keys);
    attention_block_of(task, k, v, next ? next : k, into, scales);
  } else {
    const auto* k = static_cast<const float*>(a.k_blocks[block]) + k_at;
    const auto* v = a.v_blocks ? static_cast<const float*>(a.v_blocks[block]) + v_at : nullptr;
    attention_block_of(task, k, v, k, into, scales);
  }
}

static void attention_merge(const AttentionArgs& a, int64_t rows, const AttentionPartial& into,
                            const AttentionPartial& from) {
  const int64_t dp = padded_dim(a);
  float keep[kLanes], take[kLanes];
  for (int64_t r = 0; r < rows; r++) {
    if (r % kLanes == 0) merge_scales(into.max + r, into.sum + r, from.max + r, from.sum + r, keep, take);
    const F c1 = splat(keep[r % kLanes]), c2 = splat(take[r % kLanes]);
    float* o = into.acc + r * dp;
    for (int64_t j = 0; j < dp; j += kLanes)
      store(o + j, fma(load(o + j), c1, mul(load(from.acc + r * dp + j), c2)));
  }
}

// 2^(m - M) / (l 2^(m - M) + 2^(s - M)) with M = max(m, s), s the sink's score in the units of m: the factor
// of an accumulator, where the sink counts in the sum but has no value.
FN F factor_with_sink(float max_of_scores, float sum, float sink) {
  const F m = splat(max_of_scores), s = splat(sink * 1.44269504f), most = max(m, s);
  const F keep = exp2(sub(m, most));
  return div(keep, fma(splat(sum), keep, exp2(sub(s, most))));
}

static void attention_finish(const AttentionArgs& a, int64_t kv_head, int64_t row_begin, int64_t row_end,
                             const AttentionPartial& from) {
  const int64_t d = a.value_dim, dp = padded_dim(a), per_kv = a.heads / a.kv_heads;
  for (int64_t r = row_begin; r < row_end; r++) {
    const int64_t head = kv_head * per_kv + r % per_kv, row = r - row_begin;
    float* to = a.out + ((r / per_kv) * a.heads + head) * d;
    const F inverse =
        a.sinks ? factor_with_sink(from.max[row], from.sum[row], a.sinks[head]) : splat(1.0f / from.sum[row]);
    for (int64_t j = 0; j < d; j += kLanes)
      store_upto(to + j, add(mul(load(from.acc + row * dp + j), inverse), zero()), d - j);
  }
}
