// y = x W^T where each row of x has its own experts: tiles of up to 8 * NT rows of one expert times its
// matrix. A block takes TILES tiles of 16 weight rows (with SWIGLU half of them from each matrix), and each
// of its warps one of the kSegments parts of the inputs: the same sums in the same order as gemv.cu, so the
// same bits. Weights and activations are loaded directly to registers, kAhead input tiles in advance.
constexpr int NT = kVariant.row_tiles, SWIGLU = kVariant.swiglu, TILES = kVariant.tiles;
constexpr int kWarps = kSegments, kThreads = 32 * kWarps;
constexpr int kMatrixTiles = SWIGLU ? TILES / 2 : TILES, kUnitRows = kMatrixTiles * 16;
constexpr int kTokenStride = TILES * 16 + kSumsPad, kWarpSums = 8 * kTokenStride;  // for 8 rows of x
using Tiles = Step<TILES, NT>;
constexpr int kSums = TILES * NT * 4;
constexpr int kAhead = Tiles::kHeldWords * 4 + kSums <= 160 ? 4 : Tiles::kHeldWords * 2 + kSums <= 160 ? 2 : 1;

// The index of a position in x or in the result.
DEVICE int place_of(const ExpertArgs& a, const int* order, int position) {
  if (a.head_rows) return position % a.head_rows * a.heads + position / a.head_rows;
  return order ? order[position] : position;
}
DEVICE ExpertTile tile_of(const ExpertArgs& a, int slot) {
  if (a.head_rows) {
    const int tiles = (a.head_rows + 8 * NT - 1) / (8 * NT), head = slot / tiles, first = slot % tiles * 8 * NT;
    return {head, head * a.head_rows + first, min(8 * NT, a.head_rows - first)};
  }
  return a.tiles ? a.tiles[slot] : ExpertTile{a.chosen[slot], slot, 1};
}

struct Operands {
  const u8* weights[TILES];
  const u8* x[NT];
  long x_stride;

  __device__ Operands(const ExpertArgs& a, const ExpertTile& tile, int unit) : x_stride((long)a.x_rows * 128) {
    const int lane = threadIdx.x % 32, row_tiles = (a.rows + 15) / 16;
#pragma unroll
    for (int i = 0; i < TILES; i++) {
      const int at = min(unit * kMatrixTiles + i % kMatrixTiles, row_tiles - 1);
      const long tile_bytes = (long)a.input_tiles * kRecordBytes;
      const u8* matrix = records_of(tile.expert, a.weights[i / kMatrixTiles], a.tables[i / kMatrixTiles],
                                    row_tiles * tile_bytes);
      weights[i] = matrix + at * tile_bytes;
    }
#pragma unroll
    for (int t = 0; t < NT; t++) {  // rows missing from the tile are not stored
      const int position = tile.first + min(t * 8 + lane / 4, tile.count - 1);
      x[t] = (const u8*)a.x + (long)(place_of(a, a.order, position) / a.divide) * 128 + lane % 4 * 32;
    }
  }
  __device__ void read(int k, Tiles& step) const {
#pragma unroll
    for (int i = 0; i < TILES; i++) step.read_weights(i, weights[i], k);
#pragma unroll
    for (int t = 0; t < NT; t++) step.read_x(t, x[t] + k * x_stride);
  }
};

DEVICE float total(const float* sums, int token, int row) {
  return add_segments(sums + token * kTokenStride + row, kWarpSums);
}

// Stores rows first to first + 8 of the tile.
DEVICE void store(const ExpertArgs& a, const ExpertTile& tile, int unit, int first, const float* sums) {
  for (int e = threadIdx.x; e < 8 * kUnitRows; e += kThreads) {
    const int own = e % kUnitRows, token = e / kUnitRows, row = unit * kUnitRows + own;
    if (first + token >= tile.count || row >= a.rows) continue;
    const int position = tile.first + first + token;
    const float y = total(sums, token, own);
    if (SWIGLU)
      a.packed[lane_index(position, row, a.pairs)] = to_bf16(activation(y, a.gelu) * total(sums, token, kUnitRows + own));
    else
      a.out[(long)place_of(a, a.out_order, position) * a.rows + row] = y;
  }
}

KERNEL __launch_bounds__(kThreads) experts(const __grid_constant__ ExpertArgs a) {
  __shared__ float sums[kWarps * kWarpSums];
  let_next_start();
  const int slot = blockIdx.x / a.units, unit = blockIdx.x % a.units;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  wait_for_previous();
  const ExpertTile tile = tile_of(a, slot);
  if (tile.count == 0) return;
  const Operands from(a, tile, unit);
  const int k0 = warp * a.input_tiles / kSegments, k1 = (warp + 1) * a.input_tiles / kSegments;
  float acc[TILES][NT][4] = {};
  Tiles steps[kAhead];
#pragma unroll
  for (int i = 0; i < kAhead; i++)
    if (k0 + i < k1) from.read(k0 + i, steps[i]);
  for (int k = k0; k < k1; k += kAhead)
#pragma unroll
    for (int i = 0; i < kAhead; i++) {
      if (k + i >= k1) break;
      steps[i].multiply_into(acc);
      if (k + i + kAhead < k1) from.read(k + i + kAhead, steps[i]);
    }

  const int r = lane / 4, q = lane % 4;
#pragma unroll
  for (int t = 0; t < NT; t++) {
    if (t * 8 >= tile.count) break;
    if (t > 0) __syncthreads();  // the previous sums have been read
#pragma unroll
    for (int i = 0; i < TILES; i++)
#pragma unroll
      for (int e = 0; e < 4; e++)
        sums[warp * kWarpSums + (2 * q + e % 2) * kTokenStride + i * 16 + r + e / 2 * 8] = acc[i][t][e];
    __syncthreads();
    store(a, tile, unit, t * 8, sums);
  }
}
