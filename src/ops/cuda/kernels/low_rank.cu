// What low-rank adapters add to products (ops/low_rank.h).
constexpr int kRanks = 64;  // of z that a block holds at a time

// Adds all parts of an output to its number o of ROWS rows from `first` on, in order; o may be beyond the
// last. z: of the block.
template <int ROWS>
DEVICE void add_parts(const LowRankArgs& a, const LowRankOutputArgs& to, int o, int first, float (*z)[kRanks],
                      float (&y)[ROWS]) {
  const bool here = o < to.out;
#pragma unroll
  for (int i = 0; i < ROWS; i++) y[i] = here && first + i < a.end_row ? to.y[(long)(first + i) * to.out + o] : 0.0f;
  for (int p = to.first_part; p < to.end_part; p++) {
    const LowRankPart& part = a.part[p];
    const int begin = max(first, part.begin), end = min(first + ROWS, part.begin + part.count);
    if (begin >= end) continue;
    const float* up = part.up + (long)o * part.rank;
    const long piece = (long)part.count * part.columns;
    float acc[ROWS] = {};
    for (int r0 = 0; r0 < part.rank; r0 += kRanks) {
      const int ranks = min(kRanks, part.rank - r0);
      __syncthreads();  // the block has used the numbers before these
      for (int i = threadIdx.x; i < (end - begin) * ranks; i += kLowRankThreads) {
        const int row = begin + i / ranks, r = i % ranks;
        const float* from = part.z + (long)(row - part.begin) * part.columns + r0 + r;
        float sum = *from;
#pragma unroll 4
        for (int n = 1; n < part.pieces; n++) sum += from[n * piece];
        z[row - first][r] = sum;
      }
      __syncthreads();
      if (!here) continue;
      const auto add = [&](float weight, int r) {
#pragma unroll
        for (int i = 0; i < ROWS; i++) acc[i] = __fmaf_rn(weight, z[i][r], acc[i]);
      };
      int r = 0;
      if (part.rank % 4 == 0) {
#pragma unroll 4
        for (; r < ranks; r += 4) {
          const float4 weights = *reinterpret_cast<const float4*>(up + r0 + r);
          add(weights.x, r), add(weights.y, r + 1), add(weights.z, r + 2), add(weights.w, r + 3);
        }
      }
      for (; r < ranks; r++) add(up[r0 + r], r);
    }
#pragma unroll
    for (int i = 0; i < ROWS; i++)
      if (first + i >= begin && first + i < end) y[i] = __fmaf_rn(part.scale, acc[i], y[i]);
  }
}

// Whether one of the output's parts has a row of the block's.
DEVICE bool has_parts(const LowRankArgs& a, const LowRankOutputArgs& to, int first, int rows) {
  for (int p = to.first_part; p < to.end_part; p++)
    if (a.part[p].begin < first + rows && a.part[p].begin + a.part[p].count > first) return true;
  return false;
}

template <int ROWS>
DEVICE void add_rows(const LowRankArgs& a, float (*z)[kRanks]) {
  int m = 0;
  while (m + 1 < a.outputs && blockIdx.y >= a.output[m + 1].first) m++;
  const LowRankOutputArgs& to = a.output[m];
  const int o = ((int)blockIdx.y - to.first) * kLowRankThreads + threadIdx.x;
  const int first = a.first_row + blockIdx.x * ROWS;
  for (int p = to.first_part; p < (a.tiles ? a.output[1].end_part : to.end_part); p++)
    if (o < to.out && a.part[p].begin < first + ROWS && a.part[p].begin + a.part[p].count > first)
      prefetch(a.part[p].up + (long)o * a.part[p].rank);
  wait_for_previous();
  if (!a.tiles && !has_parts(a, to, first, ROWS)) return;
  float y[ROWS];
  add_parts<ROWS>(a, to, o, first, z, y);
  float up[ROWS];
  if (a.tiles) add_parts<ROWS>(a, a.output[1], o, first, z, up);
  if (o >= to.out) return;
#pragma unroll
  for (int i = 0; i < ROWS; i++) {
    if (first + i >= a.end_row) break;
    if (a.tiles)
      a.tiles[tile_index(first + i, o, a.tiles_rows)] = to_bf16(activation(y[i], a.gelu) * up[i]);
    else
      to.y[(long)(first + i) * to.out + o] = y[i];
  }
}

KERNEL __launch_bounds__(kLowRankThreads) add_low_rank(const __grid_constant__ LowRankArgs a) {
  __shared__ float z[kLowRankRows][kRanks];
  let_next_start();
  if (a.block_rows == 1)
    add_rows<1>(a, z);
  else
    add_rows<kLowRankRows>(a, z);
}
