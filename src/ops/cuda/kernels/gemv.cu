// y = x W^T for up to 8 * NT rows of x, every weight read once. A block has two tiles of 16 weight rows (with
// SWIGLU: one of each matrix); 8 warps share a tile's inputs, each kSegments-th of them. A row's result does
// not depend on the others: a column of the tensor cores' product does not.
constexpr int kWarps = 16;
constexpr int kBatch = DENSE || NT == 4 || PLANES * NT > 2 ? 1 : 2;  // records of a warp read at a time
constexpr int kTokenStride = 20, kWarpSums = NT * 8 * kTokenStride;

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

// Weights and the activations that they meet, as a lane holds them.
struct Batch {
  Record records[kBatch];
  u32 x[kBatch][NT][8];
};

// Adds the segments of a unit's dot products, in order, and puts them where they belong.
DEVICE void store(const LinearArgs& a, int unit, const float* sums) {
  const auto total = [&](int half, int token, int row) {
    const float* from = sums + half * kSegments * kWarpSums + token * kTokenStride + row;
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
    return;
  }
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

KERNEL __launch_bounds__(512, 1) gemv(const __grid_constant__ LinearArgs a) {
  extern __shared__ __align__(128) u8 shared[];
  float* sums = (float*)shared;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, half = warp / kSegments, segment = warp % kSegments;
  const int k0 = segment * a.input_tiles / kSegments, k1 = (segment + 1) * a.input_tiles / kSegments;
  const u32 nibbles = low_nibbles(a), ones[4] = {0x3F803F80u, 0x3F803F80u, 0x3F803F80u, 0x3F803F80u};
  let_next_start();

  // Two batches: while one is used, the other is on its way. A record that a batch lacks is an old one, or zeros,
  // and meets zeros: no branch keeps two records' products from running side by side.
  Batch even, odd;
#pragma unroll
  for (int u = 0; u < kBatch; u++) {
#pragma unroll
    for (int i = 0; i < (int)(sizeof(Record) / 4); i++) ((u32*)&even.records[u])[i] = ((u32*)&odd.records[u])[i] = 0u;
  }
  // Every warp takes as many steps, whatever its share, so that all meet at the same barriers.
  const int steps = (a.input_tiles + kSegments * kBatch - 1) / (kSegments * kBatch);
  int next_unit = blockIdx.x, next_k = k0, next_step = 0;
  const u8* next = nullptr;
  if (next_unit < a.units) next = tile_address(a, next_unit, half, k0);
  const auto fetch_weights = [&](Batch& batch) {
    if (next_unit >= a.units) return;
    const u8 *codes = next + lane * 16, *scales = next + kCodeBytes + lane / 4 * kScaleWords * 4;
#pragma unroll
    for (int u = 0; u < kBatch; u++)
      if (next_k + u < k1) read_record(codes, scales, u * kRecordBytes, batch.records[u]);
    next += kBatch * kRecordBytes;
    next_k += kBatch;
    if (++next_step < steps) return;
    next_k = k0;
    next_step = 0;
    next_unit += gridDim.x;
    if (next_unit < a.units) next = tile_address(a, next_unit, half, k0);
  };
  const uint4* x = (const uint4*)a.x + (long)a.first_row_tile * 64 + lane * 2;
  const auto fetch_x = [&](Batch& batch, int k) {
#pragma unroll
    for (int u = 0; u < kBatch; u++)
#pragma unroll
      for (int t = 0; t < NT; t++) {
        const uint4* from = x + ((long)(k + u) * a.row_tiles + t) * 64;
        const bool here = k + u < k1 && lane / 4 + t * 8 < a.rows;
        const uint4 zero = make_uint4(0, 0, 0, 0);
        ((uint4*)batch.x[u][t])[0] = here ? from[0] : zero;
        ((uint4*)batch.x[u][t])[1] = here ? from[1] : zero;
      }
  };
  const auto after = [&](int k) { return k + kBatch < k0 + steps * kBatch ? k + kBatch : k0; };
  fetch_weights(even);
  fetch_weights(odd);
  wait_for_previous();
  fetch_x(even, k0);
  fetch_x(odd, after(k0));

  float acc[NT][4];
  const auto clear = [&] {
#pragma unroll
    for (int t = 0; t < NT; t++)
#pragma unroll
      for (int i = 0; i < 4; i++) acc[t][i] = 0.0f;
  };
  const auto use = [&](const Batch& batch, int k) {
#pragma unroll
    for (int u = 0; u < kBatch; u++) {
      constexpr int kGroups = DENSE ? 1 : GROUPS, kSteps = 4 / kGroups;
#pragma unroll
      for (int g = 0; g < kGroups; g++) {
        Scales s;
        if (!DENSE) s = scales_of(batch.records[u], g);
#pragma unroll
        for (int p = 0; p < PLANES; p++) {
          float part[NT][4] = {};
#pragma unroll
          for (int j = g * kSteps; j < (g + 1) * kSteps; j++) {
            u32 f[4];
            fragment(batch.records[u], p, j, nibbles, f);
#pragma unroll
            for (int t = 0; t < NT; t++) mma_bf16(part[t], f, batch.x[u][t][2 * j], batch.x[u][t][2 * j + 1]);
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
          for (int j = g * kSteps; j < (g + 1) * kSteps; j++)
            mma_bf16(sum, ones, batch.x[u][t][2 * j], batch.x[u][t][2 * j + 1]);
#pragma unroll
          for (int i = 0; i < 4; i++) acc[t][i] = __fmaf_rn(s.bias[i / 2], sum[i % 2], acc[t][i]);
        }
      }
    }
  };
  int buffer = 0;
  const auto finish = [&](int unit) {
    float* mine = sums + (buffer * kWarps + warp) * kWarpSums;
    const int r = lane / 4, q = lane % 4;
#pragma unroll
    for (int t = 0; t < NT; t++)
#pragma unroll
      for (int i = 0; i < 4; i++) mine[(t * 8 + 2 * q + i % 2) * kTokenStride + r + i / 2 * 8] = acc[t][i];
    __syncthreads();
    store(a, unit, sums + buffer * kWarps * kWarpSums);
    buffer ^= 1;
    clear();
  };
  clear();
  int unit = blockIdx.x, k = k0, done = 0;
  // True when nothing is left.
  const auto step = [&](Batch& batch) {
    use(batch, k);
    fetch_weights(batch);
    fetch_x(batch, after(after(k)));
    k += kBatch;
    if (++done < steps) return false;
    finish(unit);
    k = k0;
    done = 0;
    unit += gridDim.x;
    return unit >= a.units;
  };
  if (unit >= a.units) return;
  while (!step(even) && !step(odd)) {
  }
}
