// Products of records with 8 rows of x each, using mma.sync. Every kernel adds the products of a segment of
// the inputs to one sum, in the order of steps of 16 inputs and of a step's planes, so all give the same
// bits, with mma.sync as well as wgmma. b: for each 8 rows of x, the lane's 16 numbers in the order of x
// (lane_input() in common.cuh).
template <int TILES_, int NT_>
DEVICE void multiply(const Record (&record)[TILES_], const u32 (&b)[NT_][8], float (&acc)[TILES_][NT_][4]) {
#pragma unroll
  for (int g = 0; g < kGroups; g++) {
    Scales s[TILES_];
#pragma unroll
    for (int i = 0; i < TILES_; i++) s[i] = scales_of(record[i], g);
#pragma unroll
    for (int j = g * 4 / kGroups; j < (g + 1) * 4 / kGroups; j++)
#pragma unroll
      for (int p = 0; p < PLANES; p++)
#pragma unroll
        for (int i = 0; i < TILES_; i++) {
          u32 f[4];
          fragment(record[i], s[i], p, j, f);
#pragma unroll
          for (int t = 0; t < NT_; t++) mma_bf16(acc[i][t], f, b[t][2 * j], b[t][2 * j + 1]);
        }
  }
}

// The segments of a dot product, `stride` numbers apart, added in order.
DEVICE float add_segments(const float* sums, int stride) {
  float sum = 0.0f;
#pragma unroll
  for (int s = 0; s < kSegments; s++) sum += sums[s * stride];
  return sum * kSumScale;
}
