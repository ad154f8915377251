// Products of tiles of 16 weight rows with rows of x, an input tile at a time: the same sums in the same order as
// gemv.cu, so the same bits. Weights and activations go from memory to registers.
constexpr int kGroups = DENSE ? 1 : GROUPS;

// Records of so many tiles and of 8 * ROW_TILES rows of x, for one input tile.
template <int WEIGHT_TILES, int ROW_TILES>
struct Step {
  Record record[WEIGHT_TILES];
  u32 x[ROW_TILES][8];
  static constexpr int kHeldWords =
      WEIGHT_TILES * (kCodeWords + (DENSE ? 0 : GROUPS * kScaleWords)) + ROW_TILES * 8;

  // A lane's part of tile i, whose first record is at `weights`.
  __device__ void read_weights(int i, const u8* weights, int k) {
    const int lane = threadIdx.x % 32;
    const u8* at = weights + (long)k * kRecordBytes;
    read_record(at + lane * 16, at + kCodeBytes + lane / 4 * kScaleWords * 4, record[i]);
  }
  // at: the lane's numbers of its row of x.
  __device__ void read_x(int t, const u8* at) {
#pragma unroll
    for (int i = 0; i < 2; i++) *(uint4*)&x[t][4 * i] = *(const uint4*)(at + i * 16);
  }
};

// An expert's records: at weights, one expert of `bytes` after the other, or where the table says.
DEVICE const u8* records_of(int expert, const u8* weights, const u64* table, long bytes) {
  return table ? (const u8*)table[expert] : weights + expert * bytes;
}

template <int WEIGHT_TILES, int ROW_TILES>
DEVICE void multiply(const Step<WEIGHT_TILES, ROW_TILES>& step, u32 nibbles, float acc[WEIGHT_TILES][ROW_TILES][4]) {
  const u32 ones[4] = {0x3F803F80u, 0x3F803F80u, 0x3F803F80u, 0x3F803F80u};
  constexpr int kEach = 4 / kGroups;
#pragma unroll
  for (int g = 0; g < kGroups; g++) {
    float sum[ROW_TILES][4];
#pragma unroll
    for (int t = 0; t < ROW_TILES && !DENSE; t++)
#pragma unroll
      for (int j = g * kEach; j < (g + 1) * kEach; j++)
        mma_bf16_from(sum[t], ones, step.x[t][2 * j], step.x[t][2 * j + 1], j % kEach == 0);
#pragma unroll
    for (int i = 0; i < WEIGHT_TILES; i++) {
      float part[PLANES][ROW_TILES][4];
#pragma unroll
      for (int j = g * kEach; j < (g + 1) * kEach; j++)
#pragma unroll
        for (int p = 0; p < PLANES; p++) {
          u32 f[4];
          fragment(step.record[i], p, j, nibbles, f);
#pragma unroll
          for (int t = 0; t < ROW_TILES; t++)
            mma_bf16_from(part[p][t], f, step.x[t][2 * j], step.x[t][2 * j + 1], j % kEach == 0);
        }
      Scales s;
      if (!DENSE) s = scales_of(step.record[i], g);
#pragma unroll
      for (int t = 0; t < ROW_TILES; t++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
          float& to = acc[i][t][e];
#pragma unroll
          for (int p = 0; p < PLANES; p++) to = add_plane(to, part[p][t][e], s.scale[e / 2], p);
          if (!DENSE) to = __fmaf_rn(s.bias[e / 2], sum[t][e % 2], to);
        }
    }
  }
}
