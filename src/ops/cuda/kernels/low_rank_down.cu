// The down-projections of adapters, with up to 8 * NT rows of x in a block: its eight warps share the
// kDownTiles input tiles of a piece, and their sums are added in order. The first weights are requested before
// the previous kernel has ended. A row's result does not depend on other rows, because a column of a tensor
// core product does not; nor on `joined`, because pieces are added in the same order here as by low_rank.cu.
constexpr int NT = kVariant.row_tiles;
constexpr int kDownWarps = 8, kDownThreads = 32 * kDownWarps, kWarpTiles = kDownTiles / kDownWarps;
constexpr int kSumsStride = 16 + kSumsPad;
constexpr int kEach = (8 * NT * 16 + kDownThreads - 1) / kDownThreads;  // sums that a thread adds

// The lane's 16 numbers of an input tile's row.
DEVICE void read_row(const u8* x, int row, int tile, int rows, u32 to[8]) {
  const int q = threadIdx.x % 4;
#if __CUDA_ARCH__ == 900
  if (rows > kMostLaneRows) {  // as wgmma reads them
#pragma unroll
    for (int i = 0; i < 8; i++) to[i] = *(const u32*)(x + 2 * tile_index(row, tile * kTileK + 8 * i + 2 * q, rows));
    return;
  }
#endif
  const u8* from = x + 2 * lane_index(row, tile * kTileK, rows) + q * 32;
#pragma unroll
  for (int i = 0; i < 2; i++) *(uint4*)&to[4 * i] = *(const uint4*)(from + i * 16);
}

KERNEL __launch_bounds__(kDownThreads) low_rank_down(const __grid_constant__ LowRankDownArgs a) {
  __shared__ float sums[kDownWarps][8 * NT][kSumsStride];
  let_next_start();
  int p = 0;
  while (p + 1 < a.parts && blockIdx.x >= a.part[p + 1].first) p++;
  const LowRankDownPart& part = a.part[p];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int tiles = (part.columns + 15) / 16, block = (int)blockIdx.x - part.first;
  const int tile = block % tiles, piece = block / tiles % a.pieces, group = block / tiles / a.pieces;
  const int first_row = group * 8 * NT;
  const u8* weights = part.weights + (long)tile * a.input_tiles * kRecordBytes;
  float total[kEach];
  for (int n = 0; n < a.joined; n++) {
    const int k0 = (piece * a.joined + n) * kDownTiles + warp * kWarpTiles;
    Step<1, NT> steps[kWarpTiles];
#pragma unroll
    for (int i = 0; i < kWarpTiles; i++)
      if (k0 + i < a.input_tiles) steps[i].read_weights(0, weights, k0 + i);
    if (n == 0) wait_for_previous();
#pragma unroll
    for (int i = 0; i < kWarpTiles; i++)
#pragma unroll
      for (int t = 0; t < NT; t++) {
        const int row = part.begin + min(first_row + t * 8 + lane / 4, part.count - 1);  // others are not stored
        if (k0 + i < a.input_tiles) read_row((const u8*)a.x, row, k0 + i, a.x_rows, steps[i].x[t]);
      }
    float acc[1][NT][4] = {};
#pragma unroll
    for (int i = 0; i < kWarpTiles; i++)
      if (k0 + i < a.input_tiles) steps[i].multiply_into(acc);
    if (n > 0) __syncthreads();  // the previous sums have been read
#pragma unroll
    for (int t = 0; t < NT; t++)
#pragma unroll
      for (int e = 0; e < 4; e++) sums[warp][t * 8 + lane % 4 * 2 + e % 2][lane / 4 + e / 2 * 8] = acc[0][t][e];
    __syncthreads();
#pragma unroll
    for (int j = 0; j < kEach; j++) {
      const int i = (threadIdx.x + j * kDownThreads) % (8 * NT * 16);
      float sum = 0.0f;
#pragma unroll
      for (int w = 0; w < kDownWarps; w++) sum += sums[w][i / 16][i % 16];
      total[j] = n == 0 ? sum : total[j] + sum;
    }
  }
#pragma unroll
  for (int j = 0; j < kEach; j++) {
    const int i = threadIdx.x + j * kDownThreads, row = first_row + i / 16, column = tile * 16 + i % 16;
    if (i < 8 * NT * 16 && row < part.count && column < part.columns)
      part.z[((long)piece * part.count + row) * part.columns + column] = total[j] * kSumScale;
  }
}
