// Attention kernels. Included through kernels.inl.
//
// Every block of 256 positions gives its own partial (maximum m, sum l, accumulator o); partials are merged
// in block order. So it does not matter which rows stand together or which thread makes a block:
//   s_j = sum over d of q_d * scale * k_jd, in the order of d;  m = max s_j;  p_j = exp(s_j - m), 0 where
//   masked l = sum of p (lane sums in order, then reduce_add);  o = sum over j of p_j v_j, in order merge: m'
//   = max(m1, m2); l' = l1 exp(m1 - m') + l2 exp(m2 - m'), o' likewise

constexpr int kAttentionRows = 6;
constexpr int64_t kBlock = 256;
constexpr float kMinusInfinity = -__builtin_inff();

FN int64_t padded_dim(const AttentionArgs& a) {
  return (a.head_dim + kLanes - 1) / kLanes * kLanes;
}

// C[i, n0 ..] += sum over k in [k0, k1) of A(i, k) B[k, n0 ..], for NP vectors of columns, in the order of k.
// A(i, k) = a[i * RowStride + k * ColumnStride]; C has row stride ldc, B has ldb.
template <int MR, int NP, int RowStride, int ColumnStride, bool Part, class T>
FN void outer_step(float* c, int64_t ldc, const float* a, const T* b, int64_t ldb, int64_t k0, int64_t k1,
                   bool fresh, int64_t part) {
  F acc[NP][MR];
  UNROLL for (int p = 0; p < NP; p++) UNROLL for (int i = 0; i < MR; i++) acc[p][i] =
      fresh ? zero() : load(c + i * ldc + p * kLanes);
  for (int64_t k = k0; k < k1; k++) {
    F v[NP];
    UNROLL for (int p = 0; p < NP; p++) v[p] =
        Part ? load_part(b + k * ldb, part) : load_value(b + k * ldb + p * kLanes);
    UNROLL for (int i = 0; i < MR; i++) {
      const F x = splat(a[i * RowStride + k * ColumnStride]);
      UNROLL for (int p = 0; p < NP; p++) acc[p][i] = fma(x, v[p], acc[p][i]);
    }
  }
  UNROLL for (int p = 0; p < NP; p++) UNROLL for (int i = 0; i < MR; i++)
      store(c + i * ldc + p * kLanes, acc[p][i]);
}

// The whole product for columns [n0, n1) (n0 a multiple of 16), k in [k_begin, k_end), cut along k so that B
// is read in the order it lies in memory.
template <int MR, int RowStride, int ColumnStride, class T>
static void outer(float* c, int64_t ldc, const float* a, const T* b, int64_t ldb, int64_t k_begin,
                  int64_t k_end, int64_t n0, int64_t n1) {
  constexpr int64_t kStep = 32;
  constexpr int NP = kNatives >= 4 ? 1 : MR == 1 ? 4 : MR == 2 ? 2 : kNatives == 1 ? 2 : 1;
  for (int64_t k = k_begin; k < k_end; k += kStep) {
    const int64_t end = k + kStep < k_end ? k + kStep : k_end;
    const bool fresh = k == k_begin;
    int64_t n = n0;
    for (; n + NP * kLanes <= n1; n += NP * kLanes)
      outer_step<MR, NP, RowStride, ColumnStride, false>(c + n, ldc, a, b + n, ldb, k, end, fresh, 0);
    for (; n + kLanes <= n1; n += kLanes)
      outer_step<MR, 1, RowStride, ColumnStride, false>(c + n, ldc, a, b + n, ldb, k, end, fresh, 0);
    if (n < n1)
      outer_step<MR, 1, RowStride, ColumnStride, true>(c + n, ldc, a, b + n, ldb, k, end, fresh, n1 - n);
  }
}

// Visible positions of a row within a block: [lo, hi), empty when hi <= lo.
struct Visible {
  int64_t lo, hi;
};
FN Visible visible_in(const AttentionArgs& a, int64_t row, int64_t block) {
  const int64_t position = a.first_position + row / (a.heads / a.kv_heads), start = block * kBlock;
  Visible v;
  v.hi = position + 1 - start < kBlock ? position + 1 - start : kBlock;
  v.lo = a.window > 0 && position + 1 - a.window > start ? position + 1 - a.window - start : 0;
  return v;
}

// scores [256] of one row -> p in place; vectors [n0, n1) hold scores of the tile, the rest of p is not read.
FN void softmax_row(float* scores, Visible v, int64_t n0, int64_t n1, float* max_out, float* sum_out) {
  alignas(64) static const float kIndex[kLanes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const F index = load(kIndex), lo = splat(static_cast<float>(v.lo)), hi = splat(static_cast<float>(v.hi));
  const F none = splat(kMinusInfinity);
  F most = none;
  for (int64_t n = n0; n < n1; n += kLanes) {
    const F at = add(index, splat(static_cast<float>(n)));
    F s = select_lt(at, hi, load(scores + n), none);
    s = select_lt(at, lo, none, s);
    store(scores + n, s);
    most = max(s, most);
  }
  const float m = reduce_max(most);
  F sum = zero();
  for (int64_t n = n0; n < n1; n += kLanes) {
    const F p = exp(sub(load(scores + n), splat(m)));
    store(scores + n, p);
    sum = add(sum, p);
  }
  *max_out = m;
  *sum_out = reduce_add(sum);
}

template <class T, int MR>
static void attention_tile(const AttentionArgs& a, int64_t kv_head, int64_t row, int64_t block,
                           const AttentionPartial& out, int64_t out_row, float* scratch) {
  const int64_t d = a.head_dim, dp = padded_dim(a), per_kv = a.heads / a.kv_heads;
  float* q = scratch;            // [D][MR], scaled
  float* p = scratch + dp * MR;  // [MR][256]
  int64_t lo = kBlock, hi = 0;
  Visible v[MR];
  for (int i = 0; i < MR; i++) {
    v[i] = visible_in(a, row + i, block);
    out.max[out_row + i] = kMinusInfinity;
    out.sum[out_row + i] = 0;
    if (v[i].hi <= v[i].lo) continue;
    lo = v[i].lo < lo ? v[i].lo : lo;
    hi = v[i].hi > hi ? v[i].hi : hi;
  }
  float* acc = out.acc + out_row * dp;
  if (hi <= lo) return;  // merge skips rows whose maximum is -infinity
  for (int i = 0; i < MR; i++) {
    const int64_t r = row + i;
    const float* from = a.q + ((r / per_kv) * a.heads + kv_head * per_kv + r % per_kv) * d;
    for (int64_t j = 0; j < d; j++) q[j * MR + i] = from[j] * a.scale;
  }
  const int64_t n0 = lo / kLanes * kLanes, n1 = (hi + kLanes - 1) / kLanes * kLanes;
  const T* k = static_cast<const T*>(a.k_blocks[block]) + kv_head * d * kBlock;
  outer<MR, 1, MR>(p, kBlock, q, k, kBlock, 0, d, n0, n1);
  for (int i = 0; i < MR; i++) {
    float* scores = p + i * kBlock;
    if (v[i].hi > v[i].lo) {
      softmax_row(scores, v[i], n0, n1, out.max + out_row + i, out.sum + out_row + i);
    } else {
      for (int64_t n = n0; n < n1; n += kLanes) store(scores + n, zero());
    }
  }
  const T* values = static_cast<const T*>(a.v_blocks[block]) + kv_head * kBlock * d;
  outer<MR, kBlock, 1>(acc, dp, p, values, d, lo, hi, 0, d);
  // A masked position adds p v = 0, which can only turn -0 into +0: make that the same for all.
  for (int64_t j = 0; j < MR * dp; j += kLanes) store(acc + j, add(load(acc + j), zero()));
}

template <class T, int MR = kAttentionRows>
FN void attention_tile_of(int64_t rows, const AttentionArgs& a, int64_t kv_head, int64_t row, int64_t block,
                          const AttentionPartial& out, int64_t out_row, float* scratch) {
  if (rows == MR) return attention_tile<T, MR>(a, kv_head, row, block, out, out_row, scratch);
  if constexpr (MR > 1) attention_tile_of<T, MR - 1>(rows, a, kv_head, row, block, out, out_row, scratch);
}

static int64_t attention_scratch_floats(const AttentionArgs& a) {
  return kAttentionRows * (padded_dim(a) + kBlock);
}

static void attention_block(const AttentionArgs& a, int64_t kv_head, int64_t row_begin, int64_t row_end,
                            int64_t block, const AttentionPartial& out, float* scratch) {
  for (int64_t r = row_begin; r < row_end; r += kAttentionRows) {
    const int64_t rows = row_end - r < kAttentionRows ? row_end - r : kAttentionRows;
    if (a.half)
      attention_tile_of<uint16_t>(rows, a, kv_head, r, block, out, r - row_begin, scratch);
    else
      attention_tile_of<float>(rows, a, kv_head, r, block, out, r - row_begin, scratch);
  }
}

static void attention_merge(const AttentionArgs& a, int64_t rows, const AttentionPartial& into,
                            const AttentionPartial& from) {
  const int64_t dp = padded_dim(a);
  for (int64_t r = 0; r < rows; r++) {
    const float m2 = from.max[r], m1 = into.max[r];
    if (m2 == kMinusInfinity) continue;
    float* o1 = into.acc + r * dp;
    const float* o2 = from.acc + r * dp;
    if (m1 == kMinusInfinity) {
      into.max[r] = m2;
      into.sum[r] = from.sum[r];
      for (int64_t j = 0; j < dp; j += kLanes) store(o1 + j, load(o2 + j));
      continue;
    }
    const float m = m1 > m2 ? m1 : m2;
    float c1[kLanes], c2[kLanes];
    store(c1, exp(splat(m1 - m)));
    store(c2, exp(splat(m2 - m)));
    into.max[r] = m;
    into.sum[r] = into.sum[r] * c1[0] + from.sum[r] * c2[0];
    const F f1 = splat(c1[0]), f2 = splat(c2[0]);
    for (int64_t j = 0; j < dp; j += kLanes) store(o1 + j, fma(load(o1 + j), f1, mul(load(o2 + j), f2)));
  }
}

static void attention_finish(const AttentionArgs& a, int64_t kv_head, int64_t row_begin, int64_t row_end,
                             const AttentionPartial& from) {
  const int64_t d = a.head_dim, dp = padded_dim(a), per_kv = a.heads / a.kv_heads;
  for (int64_t r = row_begin; r < row_end; r++) {
    float* to = a.out + ((r / per_kv) * a.heads + kv_head * per_kv + r % per_kv) * d;
    const F inverse = splat(1.0f / from.sum[r - row_begin]);
    for (int64_t j = 0; j < d; j += kLanes)
      store_upto(to + j, mul(load(from.acc + (r - row_begin) * dp + j), inverse), d - j);
  }
}
