// y = x W^T for up to 8 * NT rows of x, every weight read once. A block has two tiles of 16 weight rows (with
// SWIGLU: one of each matrix); 8 warps share a tile's inputs, each kSegments-th of them. A row's result does
// not depend on the others: a column of the tensor cores' product does not.
constexpr int kWarps = 16;
constexpr int kDepth = DENSE ? 4 : (PLANES == 2 ? 6 : 8);  // records of a warp on their way from memory
constexpr int kTokenStride = 20, kWarpSums = NT * 8 * kTokenStride;

struct Cursor {
  const u8* at;
  int unit, k;
};

DEVICE const u8* tile_address(const LinearArgs& a, int unit, int half, int first_k) {
  int m = 0;
  if (SWIGLU) {
    m = half;
  } else {
    while (m + 1 < a.matrices && unit >= a.matrix[m + 1].first) m++;
  }
  const MatrixArgs& matrix = a.matrix[m];
  const int tiles = (matrix.rows + 15) / 16;
  int tile = SWIGLU ? unit : 2 * (unit - matrix.first) + half;
  if (tile >= tiles) tile = tiles - 1;
  return matrix.weights + ((long)tile * a.input_tiles + first_k) * kRecordBytes;
}

KERNEL __launch_bounds__(512, 1) gemv(const __grid_constant__ LinearArgs a) {
  extern __shared__ __align__(128) u8 shared[];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, half = warp / kSegments, segment = warp % kSegments;
  const int k0 = segment * a.input_tiles / kSegments, k1 = (segment + 1) * a.input_tiles / kSegments;
  u8* ring = shared + warp * kDepth * kRecordBytes;
  float* sums = (float*)(shared + kWarps * kDepth * kRecordBytes);
  let_next_start();

  Cursor next = {0, (int)blockIdx.x, k0};
  if (next.unit < a.units && k0 < k1) next.at = tile_address(a, next.unit, half, k0);
  const auto fetch = [&](int slot) {
    if (next.unit < a.units && k0 < k1) {
#pragma unroll
      for (int i = 0; i < kRecordBytes; i += 512)
        if (i + lane * 16 < kRecordBytes)
          copy16_async(ring + slot * kRecordBytes + i + lane * 16, next.at + i + lane * 16);
      next.at += kRecordBytes;
      if (++next.k == k1) {
        next.k = k0;
        next.unit += gridDim.x;
        if (next.unit < a.units) next.at = tile_address(a, next.unit, half, k0);
      }
    }
    commit_copies();
  };
  for (int i = 0; i < kDepth; i++) fetch(i);
  wait_for_previous();

  const u32* x = a.x + (long)a.first_row_tile * 256 + lane;
  u32 b[NT][8];
  const auto read_x = [&](int k) {
#pragma unroll
    for (int t = 0; t < NT; t++) {
      const u32* from = x + ((long)k * a.row_tiles + t) * 256;
      const bool here = lane / 4 + t * 8 < a.rows;
#pragma unroll
      for (int i = 0; i < 8; i++) b[t][i] = here ? from[i * 32] : 0u;
    }
  };
  const u32 ones[4] = {0x3F803F80u, 0x3F803F80u, 0x3F803F80u, 0x3F803F80u};
  int slot = 0, buffer = 0;
  for (int unit = blockIdx.x; unit < a.units; unit += gridDim.x, buffer ^= 1) {
    float acc[NT][4];
#pragma unroll
    for (int t = 0; t < NT; t++)
#pragma unroll
      for (int i = 0; i < 4; i++) acc[t][i] = 0.0f;
    for (int k = k0; k < k1; k++) {
      read_x(k);
      wait_copies<kDepth - 1>();
      __syncwarp();
      Record record;
      const u8* from = ring + slot * kRecordBytes;
      if (DENSE) {
#pragma unroll
        for (int i = 0; i < kCodeWords / 4; i++) ((uint4*)record.codes)[i] = ((const uint4*)from)[i * 32 + lane];
      } else {
#pragma unroll
        for (int p = 0; p < PLANES; p++) ((uint4*)record.codes)[p] = ((const uint4*)from)[p * 32 + lane];
#pragma unroll
        for (int i = 0; i < GROUPS * kScaleWords / 2; i++)
          ((uint2*)record.scales)[i] =
              ((const uint2*)(from + kCodeBytes))[(i * 2 / kScaleWords * 8 + lane / 4) * (kScaleWords / 2) +
                                                  i % (kScaleWords / 2)];
      }
      __syncwarp();
      fetch(slot);
      slot = slot + 1 == kDepth ? 0 : slot + 1;
      constexpr int kGroups = DENSE ? 1 : GROUPS, kSteps = 4 / kGroups;
#pragma unroll
      for (int g = 0; g < kGroups; g++) {
        Scales s;
        if (!DENSE) s = scales_of(record, g);
#pragma unroll
        for (int p = 0; p < PLANES; p++) {
          float part[NT][4] = {};
#pragma unroll
          for (int j = g * kSteps; j < (g + 1) * kSteps; j++) {
            u32 f[4];
            fragment(record, p, j, f);
#pragma unroll
            for (int t = 0; t < NT; t++) mma_bf16(part[t], f, b[t][2 * j], b[t][2 * j + 1]);
          }
#pragma unroll
          for (int t = 0; t < NT; t++)
#pragma unroll
            for (int i = 0; i < 4; i++) acc[t][i] = add_plane(acc[t][i], part[t][i], s.scale[i / 2], p);
        }
        if (DENSE) continue;
#pragma unroll
        for (int t = 0; t < NT; t++) {
          float sum[4] = {};
#pragma unroll
          for (int j = g * kSteps; j < (g + 1) * kSteps; j++) mma_bf16(sum, ones, b[t][2 * j], b[t][2 * j + 1]);
#pragma unroll
          for (int i = 0; i < 4; i++) acc[t][i] = __fmaf_rn(s.bias[i / 2], sum[i % 2], acc[t][i]);
        }
      }
    }
    float* mine = sums + (buffer * kWarps + warp) * kWarpSums;
    const int r = lane / 4, q = lane % 4;
#pragma unroll
    for (int t = 0; t < NT; t++)
#pragma unroll
      for (int i = 0; i < 4; i++) mine[(t * 8 + 2 * q + i % 2) * kTokenStride + r + i / 2 * 8] = acc[t][i];
    __syncthreads();
    const auto total = [&](int h, int token, int row) {
      const float* from = sums + (buffer * kWarps + h * kSegments) * kWarpSums + token * kTokenStride + row;
      float sum = 0.0f;
#pragma unroll
      for (int w = 0; w < kSegments; w++) sum += from[w * kWarpSums];
      return sum;
    };
    if (SWIGLU) {
      for (int e = threadIdx.x; e < NT * 128; e += 512) {
        const int row = unit * 16 + e % 16, token = e / 16;
        if (token >= a.rows || row >= a.matrix[0].rows) continue;
        const float y = silu(total(0, token, e % 16)) * total(1, token, e % 16);
        a.tiles[tile_index(a.first_row_tile * 8 + token, row, a.tiles_row_tiles)] = to_bf16(y);
      }
    } else {
      int m = 0;
      while (m + 1 < a.matrices && unit >= a.matrix[m + 1].first) m++;
      const MatrixArgs& matrix = a.matrix[m];
      for (int e = threadIdx.x; e < NT * 256; e += 512) {
        const int row = (unit - matrix.first) * 32 + e % 32, token = e / 32;
        if (token >= a.rows || row >= matrix.rows) continue;
        const long at = (long)(a.first_row_tile * 8 + token) * matrix.rows + row;
        float y = total(e % 32 / 16, token, e % 16);
        if (matrix.residual) y += matrix.residual[at];
        matrix.out[at] = y;
      }
    }
  }
}
