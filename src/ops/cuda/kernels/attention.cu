// Attention over paged keys and values: D is the head's size, a multiple of 32.
//
// Of a block of 256 positions, keys are f16 [kv heads][256][D] and values f16 [kv heads][D][256]. A part is
// kPart positions on an absolute grid. 16 query rows (positions by the heads that share keys) meet a part on
// the tensor cores and leave its largest score, sum and weighted values; parts are joined in order, by the same
// operations in one block's registers (prefill) or in a second kernel (decode). So a row's result depends
// neither on other rows nor on which way it went.
constexpr int kBlock = 256;

DEVICE u64 block_address(const AttendArgs& a, int pair, int which) {
  return a.table ? a.table[2 * pair + which] : a.pairs[2 * pair + which];
}
DEVICE float in_f16_range(float x) { return fminf(fmaxf(x, -65504.0f), 65504.0f); }

// One warp for each row and head: norm, rotation, and where it belongs.
KERNEL prepare(const __grid_constant__ AttendArgs a) {
  __shared__ float shared[8][D];
  wait_for_previous();
  let_next_start();
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int q_heads = a.q ? a.heads : 0, units = q_heads + (a.k ? 2 * a.kv_heads : 0);
  const int unit = blockIdx.x * 8 + warp;
  const int row = a.first_row + unit / units, head = unit % units;
  if (unit / units >= a.rows) return;
  const bool is_q = head < q_heads, is_v = !is_q && head >= q_heads + a.kv_heads;
  const int h = is_q ? head : (head - q_heads) % a.kv_heads;
  const float* x = is_q ? a.q + ((long)row * a.heads + h) * D : (is_v ? a.v : a.k) + ((long)row * a.kv_heads + h) * D;
  int span = 0;
  while (span + 1 < a.spans && row >= a.span[span + 1].row) span++;
  const AttendSpan& s = a.span[span];
  const int position = s.length - s.count + row - s.row;
  float y[D / 32];
#pragma unroll
  for (int i = 0; i < D / 32; i++) y[i] = x[i * 32 + lane];
  const float* norm = is_v ? nullptr : is_q ? a.q_norm : a.k_norm;
  if (norm) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < D / 32; i++) sum += y[i] * y[i];
    const float factor = 1.0f / sqrtf(warp_sum(sum) / D + (is_q ? a.q_eps : a.k_eps));
#pragma unroll
    for (int i = 0; i < D / 32; i++) y[i] *= factor * norm[i * 32 + lane];
  }
  if (!is_v && a.inv_freq) {
    float* all = shared[warp];
#pragma unroll
    for (int i = 0; i < D / 32; i++) all[i * 32 + lane] = y[i];
    __syncwarp();
    const int own = a.positions ? a.positions[row] : position;
    const double at = own;
    const float* frequencies = a.far_from > 0 && own >= a.far_from ? a.far_inv_freq : a.inv_freq;
    float factor = a.attention_factor;
    if (is_q && a.query_beta != 0.0f) factor *= 1.0f + a.query_beta * logf(1.0f + (float)(own / a.query_period));
    for (int i = lane; i < a.pairs_turned; i += 32) {
      double sine, cosine;
      sincos(at * (double)frequencies[i], &sine, &cosine);
      const float c = (float)cosine * factor, sn = (float)sine * factor;
      const float x1 = all[i], x2 = all[i + a.pairs_turned];
      all[i] = x1 * c - x2 * sn;
      all[i + a.pairs_turned] = x2 * c + x1 * sn;
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < D / 32; i++) y[i] = all[i * 32 + lane];
  }
  if (is_q) {
    const long to = ((long)row * a.heads + h) * D;
#pragma unroll
    for (int i = 0; i < D / 32; i++) {
      if (a.q_out) a.q_out[to + i * 32 + lane] = y[i];
      if (a.q16) a.q16[to + i * 32 + lane] = to_f16(in_f16_range(y[i]));
    }
    return;
  }
  u16* block = (u16*)block_address(a, s.first_pair + position / kBlock, is_v);
  const int column = position % kBlock;
#pragma unroll
  for (int i = 0; i < D / 32; i++) {
    const int d = i * 32 + lane;
    const u16 value = to_f16(in_f16_range(y[i]));
    if (is_v)
      block[((long)h * D + d) * kBlock + column] = value;
    else
      block[((long)h * kBlock + column) * D + d] = value;
  }
}

// Joins a part (m, l, o) to what is there.
struct Joint {
  float keep, add;
};
DEVICE Joint join(float& largest, float m) {
  const float both = fmaxf(largest, m);
  const Joint j = {exp2f(largest - both), exp2f(m - both)};
  largest = both;
  return j;
}
DEVICE float joined(Joint j, float old, float more) { return __fmaf_rn(old, j.keep, __fmul_rn(more, j.add)); }

DEVICE void store(const AttendArgs& a, int row, int head, int d, float y) {
  const long at = ((long)row * a.heads + head) * D + d;
  if (a.gate) y *= sigmoid(a.gate[at]);
  if (a.out) a.out[at] = y;
  if (a.tiles) a.tiles[tile_index(row, head * D + d, a.tiles_rows)] = to_bf16(y);
}

// Where the keys and the values of a warp begin: 32 rows of D, and D / 4 rows of kPart (kBlock apart).
struct PartOfWarp {
  const u16 *keys, *values;
  __device__ PartOfWarp(const AttendArgs& a, const AttendSpan& s, int part, int kv_head, int warp) {
    const int pair = s.first_pair + part * kPart / kBlock, column = part * kPart % kBlock;
    keys = (const u16*)block_address(a, pair, 0) + ((long)kv_head * kBlock + column + warp * 32) * D;
    values = (const u16*)block_address(a, pair, 1) + ((long)kv_head * D + warp * (D / 4)) * kBlock + column;
  }
  // Values are on their way while keys are.
  __device__ void ask() const {
    for (int i = threadIdx.x % 32; i < D / 2; i += 32) prefetch(keys + i * 64);
    for (int i = threadIdx.x % 32; i < D / 2; i += 32) prefetch(values + i / 2 * kBlock + i % 2 * 64);
  }
};

// Grid: parts or 1 (then a block takes all), kv heads, tiles of 16 query rows.
KERNEL __launch_bounds__(128) attend(const __grid_constant__ AttendArgs a) {
  constexpr int kStride = kPart + 8;
  __shared__ __align__(16) u16 weights[16 * kStride];
  __shared__ float largest_of[4][16], sum_of[4][16];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, r = lane / 4, q = lane % 4;
  const int group = a.heads / a.kv_heads, kv_head = blockIdx.y, tile = blockIdx.z;
  int span = 0;
  while (span + 1 < a.spans && tile >= a.span[span + 1].first_tile) span++;
  const AttendSpan& s = a.span[span];
  const int first = (tile - s.first_tile) * 16, rows = s.count * group;
  const int start = s.length - s.count;
  // Of this lane's two rows: index among the batch's rows, head, position; -1: none.
  int at[2], head[2], position[2];
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const int index = first + r + 8 * i;
    at[i] = index < rows ? s.row + index / group : -1;
    head[i] = kv_head * group + index % group;
    position[i] = index < rows ? start + index / group : -1;
  }
  const int last = start + (min(first + 16, rows) - 1) / group;
  const int begin = a.window > 0 ? max(0, start + first / group - a.window + 1) / kPart : 0, end = last / kPart + 1;
  const bool whole = gridDim.x == 1, here = whole || ((int)blockIdx.x >= begin && (int)blockIdx.x < end);
  if (!whole && here && !a.table) PartOfWarp(a, s, blockIdx.x, kv_head, warp).ask();
  wait_for_previous();
  let_next_start();
  if (!here) {
    const long unit = ((long)tile * a.parts + blockIdx.x) * a.kv_heads + kv_head;
    if (threadIdx.x < 16) a.largest[(unit * 16 + threadIdx.x) * 2] = __uint_as_float(0xFF800000u);
    return;
  }

  u32 queries[D / 32][2][4];
#pragma unroll
  for (int c = 0; c < D / 32; c++)
#pragma unroll
    for (int i = 0; i < 2; i++) {
      uint4 v = make_uint4(0, 0, 0, 0);
      if (at[i] >= 0) v = *(const uint4*)(a.q16 + ((long)at[i] * a.heads + head[i]) * D + c * 32 + q * 8);
      queries[c][i][0] = v.x, queries[c][i][1] = v.y, queries[c][i][2] = v.z, queries[c][i][3] = v.w;
    }
  float running[D / 32][4], running_largest[2], running_sum[2] = {0.0f, 0.0f};
#pragma unroll
  for (int i = 0; i < 2; i++) running_largest[i] = __uint_as_float(0xFF800000u);
#pragma unroll
  for (int n = 0; n < D / 32; n++)
#pragma unroll
    for (int i = 0; i < 4; i++) running[n][i] = 0.0f;

  for (int part = whole ? begin : (int)blockIdx.x; part < (whole ? end : (int)blockIdx.x + 1); part++) {
    const PartOfWarp at_part(a, s, part, kv_head, warp);
    const u16 *keys = at_part.keys, *values = at_part.values;
    float scores[4][4] = {};
#pragma unroll
    for (int c = 0; c < D / 32; c++)
#pragma unroll
      for (int n = 0; n < 4; n++) {
        const uint4 k = *(const uint4*)(keys + (n * 8 + r) * D + c * 32 + q * 8);
        const u32 low[4] = {queries[c][0][0], queries[c][1][0], queries[c][0][1], queries[c][1][1]};
        const u32 high[4] = {queries[c][0][2], queries[c][1][2], queries[c][0][3], queries[c][1][3]};
        mma_f16(scores[n], low, k.x, k.y);
        mma_f16(scores[n], high, k.z, k.w);
      }
    float largest[2], sum[2] = {0.0f, 0.0f};
    largest[0] = largest[1] = __uint_as_float(0xFF800000u);
#pragma unroll
    for (int n = 0; n < 4; n++)
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const int p = part * kPart + warp * 32 + n * 8 + 2 * q + i % 2, own = position[i / 2];
        const bool seen = p <= own && (a.window <= 0 || p > own - a.window);
        float score = scores[n][i] * a.scale;
        if (a.soft_cap > 0.0f) score = a.soft_cap * tanhf(score / a.soft_cap);
        scores[n][i] = seen ? score : __uint_as_float(0xFF800000u);
        largest[i / 2] = fmaxf(largest[i / 2], scores[n][i]);
      }
#pragma unroll
    for (int i = 0; i < 2; i++) {
      largest[i] = fmaxf(largest[i], __shfl_xor_sync(~0u, largest[i], 1));
      largest[i] = fmaxf(largest[i], __shfl_xor_sync(~0u, largest[i], 2));
      if (q == 0) largest_of[warp][r + 8 * i] = largest[i];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const int row = r + 8 * i;
      largest[i] = fmaxf(fmaxf(largest_of[0][row], largest_of[1][row]), fmaxf(largest_of[2][row], largest_of[3][row]));
    }
#pragma unroll
    for (int n = 0; n < 4; n++)
#pragma unroll
      for (int i = 0; i < 2; i++) {
        const bool none = largest[i] == __uint_as_float(0xFF800000u);
        const float p0 = none ? 0.0f : exp2f(scores[n][2 * i] - largest[i]);
        const float p1 = none ? 0.0f : exp2f(scores[n][2 * i + 1] - largest[i]);
        sum[i] += p0 + p1;
        *(u32*)(weights + (r + 8 * i) * kStride + warp * 32 + n * 8 + 2 * q) = pack_f16(p0, p1);
      }
#pragma unroll
    for (int i = 0; i < 2; i++) {
      sum[i] += __shfl_xor_sync(~0u, sum[i], 1);
      sum[i] += __shfl_xor_sync(~0u, sum[i], 2);
      if (q == 0) sum_of[warp][r + 8 * i] = sum[i];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const int row = r + 8 * i;
      sum[i] = (sum_of[0][row] + sum_of[1][row]) + (sum_of[2][row] + sum_of[3][row]);
    }
    float mixed[D / 32][4] = {};
#pragma unroll
    for (int c = 0; c < kPart / 32; c++) {
      const uint4 w0 = *(const uint4*)(weights + r * kStride + c * 32 + q * 8);
      const uint4 w8 = *(const uint4*)(weights + (r + 8) * kStride + c * 32 + q * 8);
      const u32 low[4] = {w0.x, w8.x, w0.y, w8.y}, high[4] = {w0.z, w8.z, w0.w, w8.w};
#pragma unroll
      for (int n = 0; n < D / 32; n++) {
        const uint4 v = *(const uint4*)(values + (n * 8 + r) * kBlock + c * 32 + q * 8);
        mma_f16(mixed[n], low, v.x, v.y);
        mma_f16(mixed[n], high, v.z, v.w);
      }
    }
    if (!whole) {
      const long unit = ((long)tile * a.parts + part) * a.kv_heads + kv_head;
#pragma unroll
      for (int n = 0; n < D / 32; n++)
#pragma unroll
        for (int i = 0; i < 2; i++)
          if (at[i] >= 0)
            *(float2*)(a.sums + (unit * 16 + r + 8 * i) * D + warp * (D / 4) + n * 8 + 2 * q) =
                make_float2(mixed[n][2 * i], mixed[n][2 * i + 1]);
      if (warp == 0 && q == 0)
#pragma unroll
        for (int i = 0; i < 2; i++) {
          a.largest[(unit * 16 + r + 8 * i) * 2] = largest[i];
          a.largest[(unit * 16 + r + 8 * i) * 2 + 1] = sum[i];
        }
      return;
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
      if (largest[i] == __uint_as_float(0xFF800000u)) continue;
      const Joint j = join(running_largest[i], largest[i]);
      running_sum[i] = joined(j, running_sum[i], sum[i]);
#pragma unroll
      for (int n = 0; n < D / 32; n++) {
        running[n][2 * i] = joined(j, running[n][2 * i], mixed[n][2 * i]);
        running[n][2 * i + 1] = joined(j, running[n][2 * i + 1], mixed[n][2 * i + 1]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 2; i++) {
    if (at[i] < 0) continue;
#pragma unroll
    for (int n = 0; n < D / 32; n++)
#pragma unroll
      for (int e = 0; e < 2; e++)
        store(a, at[i], head[i], warp * (D / 4) + n * 8 + 2 * q + e, running[n][2 * i + e] / running_sum[i]);
  }
}

// Joins the parts of a query row. Grid: 16 rows, kv heads, tiles; D threads.
KERNEL combine(const __grid_constant__ AttendArgs a) {
  wait_for_previous();
  let_next_start();
  const int group = a.heads / a.kv_heads, kv_head = blockIdx.y, tile = blockIdx.z, d = threadIdx.x;
  int span = 0;
  while (span + 1 < a.spans && tile >= a.span[span + 1].first_tile) span++;
  const AttendSpan& s = a.span[span];
  const int index = (tile - s.first_tile) * 16 + blockIdx.x;
  if (index >= s.count * group) return;
  const int parts = (s.length - s.count + index / group) / kPart + 1;
  float largest = __uint_as_float(0xFF800000u), sum = 0.0f, mixed = 0.0f;
  constexpr int kTogether = 32;  // read together: one wait for memory, not one for each
  for (int first = 0; first < parts; first += kTogether) {
    float m[kTogether], l[kTogether], o[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; i++) {
      const long unit = (((long)tile * a.parts + min(first + i, parts - 1)) * a.kv_heads + kv_head) * 16 + blockIdx.x;
      m[i] = a.largest[unit * 2], l[i] = a.largest[unit * 2 + 1], o[i] = a.sums[unit * D + d];
    }
#pragma unroll
    for (int i = 0; i < kTogether; i++) {
      if (first + i >= parts || m[i] == __uint_as_float(0xFF800000u)) continue;
      const Joint j = join(largest, m[i]);
      sum = joined(j, sum, l[i]);
      mixed = joined(j, mixed, o[i]);
    }
  }
  store(a, s.row + index / group, kv_head * group + index % group, d, mixed / sum);
}
