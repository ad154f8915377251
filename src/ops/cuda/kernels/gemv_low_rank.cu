// A product, and what adapters add to it. Unless an earlier launch did, the blocks first compute the down-projections
// of all adapters, each some of them, while the first weights of the product are on their way: a launch of their own
// (low_rank_down.cu) takes longer. Eight warps share a unit, and add as many products in the same order as that
// launch does, so that the bits are the same.
constexpr int kDownWarps = 8, kDownThreads = 32 * kDownWarps, kWarpTiles = kDownTiles / kDownWarps;
constexpr int kSumsStride = 16 + kSumsPad, kDownSums = 8 * kSumsStride;  // of a warp
static_assert(kThreads == 2 * kDownThreads && kDownSums <= kWarpSums, "two units at a time");

struct Downs {
  const LinearArgs& a;
  const ProductAdds& adds;
  const AddedDown* part;
  int unit, tile, piece, first_row, k0;
  u32 codes[kWarpTiles][2][16], x[kWarpTiles][8];  // the lane's parts of weights, by plane, and of a row

  __device__ Downs(const LinearArgs& a, const ProductAdds& adds)
      : a(a), adds(adds), unit(first_share() + (int)threadIdx.x / kDownThreads * shares()) {}
  __device__ bool any() const { return adds.down_units > 0; }

  __device__ void request_weights() {
    if (unit >= adds.down_units) return;
    part = adds.down;
    while (part + 1 < adds.down + adds.downs && unit >= part[1].first) part++;
    const int tiles = (part->columns + 15) / 16, own = unit - part->first;
    tile = own % tiles, piece = own / tiles % adds.down_pieces, first_row = own / tiles / adds.down_pieces * 8;
    k0 = piece * kDownTiles + threadIdx.x % kDownThreads / 32 * kWarpTiles;
    const int record = adds.down_planes * 2048;
    const u8* from = part->weights + ((long)tile * a.input_tiles + k0) * record + threadIdx.x % 32 * 16;
#pragma unroll
    for (int i = 0; i < kWarpTiles; i++)
#pragma unroll
      for (int p = 0; p < 2; p++)
#pragma unroll
        for (int j = 0; j < 4; j++)
          if (k0 + i < a.input_tiles && p < adds.down_planes)
            *(uint4*)&codes[i][p][4 * j] = *(const uint4*)(from + i * record + (p * 4 + j) * 512);
  }
  __device__ void request_inputs() {
    if (unit >= adds.down_units) return;
    const int lane = threadIdx.x % 32, row = part->begin + min(first_row + lane / 4, part->count - 1);
#pragma unroll
    for (int i = 0; i < kWarpTiles; i++)
#pragma unroll
      for (int j = 0; j < 2; j++)
        if (k0 + i < a.input_tiles)
          *(uint4*)&x[i][4 * j] =
              *(const uint4*)((const u8*)a.x + 2 * lane_index(row, (k0 + i) * kTileK, a.x_rows) + lane % 4 * 32 + j * 16);
  }
  // Computes this block's units, and tells the other blocks. sums: of the product, before its first ones.
  __device__ void compute(float* sums) {
    const int lane = threadIdx.x % 32, thread = threadIdx.x % kDownThreads;
    float* own = sums + threadIdx.x / kDownThreads * kDownWarps * kDownSums;
    for (int base = first_share(); base < adds.down_units; base += 2 * shares(), unit += 2 * shares()) {
      if (base != first_share()) {
        __syncthreads();  // the previous sums have been read
        request_weights(), request_inputs();
      }
      const bool here = unit < adds.down_units;
      float acc[4] = {};
#pragma unroll
      for (int i = 0; i < kWarpTiles; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
          for (int p = 0; p < 2; p++)
            if (here && k0 + i < a.input_tiles && p < adds.down_planes)
              mma_bf16(acc, codes[i][p] + 4 * j, x[i][2 * j], x[i][2 * j + 1]);
#pragma unroll
      for (int e = 0; e < 4; e++)
        own[thread / 32 * kDownSums + (lane % 4 * 2 + e % 2) * kSumsStride + lane / 4 + e / 2 * 8] = acc[e];
      __syncthreads();
      const int row = first_row + thread / 16, column = tile * 16 + thread % 16;
      if (!here || thread >= 8 * 16 || row >= part->count || column >= part->columns) continue;
      float sum = 0.0f;
#pragma unroll
      for (int w = 0; w < kDownWarps; w++) sum += own[w * kDownSums + thread / 16 * kSumsStride + thread % 16];
      part->z[((long)piece * part->count + row) * part->columns + column] = sum;
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) atomicInc(adds.counter, 2 * gridDim.x - 1);
  }
  // Waits until all blocks have computed theirs. The counter goes on as they leave, and wraps to 0. All blocks of the
  // launch run at the same time.
  __device__ void wait() {
    if (threadIdx.x == 0) {
      while (load_acquire(adds.counter) < shares()) {
      }
      atomicInc(adds.counter, 2 * gridDim.x - 1);
    }
    __syncthreads();
  }
};

KERNEL __launch_bounds__(kThreads, 1) gemv_low_rank(const __grid_constant__ AdaptedLinearArgs a) {
  multiply_units(a.linear, &a.adds, Downs(a.linear, a.adds));
}
