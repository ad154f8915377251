// y = x W^T for many rows of x on Hopper's tensor cores (wgmma): gemv.cu's sums in gemv.cu's order, so the same bits. A
// block takes tiles of ROWS weight rows (with SWIGLU half of each matrix) by TOKENS rows of x, one after the other. A
// warpgroup has weights and x brought into shared memory, some stages ahead. Two others turn weights into fragments in
// registers while their products before still run; each has kParts times 64 of the rows. With SPLIT, a tile's segments
// go to SPLIT blocks, whose sums add_up() adds.
constexpr int kWarps = 8, kConsumers = 32 * kWarps, kThreads = kConsumers + 128;
constexpr int kParts = ROWS / 128, kRecords = ROWS / 16, kTileRows = SWIGLU ? ROWS / 2 : ROWS;  // of a matrix
constexpr int kXBytes = TOKENS * 128, kStageBytes = kXBytes + kRecords * kRecordBytes;
constexpr int kAcc = TOKENS / 2, kFragments = 4 * PLANES;
constexpr int kFitting = (227 * 1024 - 256) / kStageBytes, kStages = kFitting < 12 ? kFitting : 12;
constexpr int kTotals = SPLIT > 1 ? 1 : kAcc;
static_assert(kStages >= 3 && (kParts == 1 || kParts % 2 == 0), "stages, buffers");

// A tile of the product: rows of a matrix (SWIGLU: of both), rows of x and a range of input tiles.
struct Tile {
  int matrix, row, token, segment, k0, k1;
};
DEVICE int tile_count(const LinearArgs& a) { return a.units * ((a.rows + TOKENS - 1) / TOKENS) * SPLIT; }
DEVICE Tile tile_of(const LinearArgs& a, int index) {
  const int part = index % SPLIT, across = (a.rows + TOKENS - 1) / TOKENS, unit = index / SPLIT / across;
  int m = 0;
  while (!SWIGLU && m + 1 < a.matrices && unit >= a.matrix[m + 1].first) m++;
  constexpr int kSegmentsOf = kSegments / SPLIT;
  return {m, (unit - a.matrix[m].first) * kTileRows, index / SPLIT % across * TOKENS, part * kSegmentsOf,
          part * kSegmentsOf * a.input_tiles / kSegments, (part + 1) * kSegmentsOf * a.input_tiles / kSegments};
}

// The warpgroup that brings stages: each warp a quarter of the weights, the first also x.
DEVICE void produce(const LinearArgs& a, u8* shared, u64* full, u64* empty) {
  if (threadIdx.x % 32 > 0) return;
  constexpr int kEach = kRecords / 4;
  const int warp = threadIdx.x / 32 % 4, count = tile_count(a);
  int stage = 0, phase = 1;
  wait_for_previous();
  for (int index = blockIdx.x; index < count; index += gridDim.x) {
    const Tile tile = tile_of(a, index);
    const int first = warp * kEach, m = SWIGLU ? first / (kRecords / 2) : tile.matrix;
    const int own = tile.row / 16 + (SWIGLU ? first % (kRecords / 2) : first), last = (a.matrix[m].rows + 15) / 16 - 1;
    const long stride = (long)a.input_tiles * kRecordBytes, x_stride = (long)a.row_tiles * 1024;
    const u8* weights = a.matrix[m].weights + (long)tile.k0 * kRecordBytes;
    const u8* x = (const u8*)a.x + tile.k0 * x_stride + (long)tile.token * 128;
    for (int k = tile.k0; k < tile.k1; k++) {
      u8* to = shared + stage * kStageBytes;
      barrier_wait(empty + stage, phase);
      if (warp == 0) {
        barrier_expect(full + stage, kStageBytes);
        copy_bulk(to, x, kXBytes, full + stage);
      }
#pragma unroll
      for (int i = 0; i < kEach; i++)
        copy_bulk(to + kXBytes + (first + i) * kRecordBytes, weights + min(own + i, last) * stride, kRecordBytes,
                  full + stage);
      weights += kRecordBytes;
      x += x_stride;
      if (++stage == kStages) stage = 0, phase ^= 1;
    }
  }
}

// Where a thread's numbers of a part belong: of 64 rows, a warp has 16. A thread has rows r, r + 8 (SWIGLU: row r of
// both matrices) and rows 2q, 2q + 1 of each 8 of x.
DEVICE int row_of(const Tile& tile, int part) {
  const int slot = (threadIdx.x / 128 * kParts + part) * 4 + threadIdx.x / 32 % 4;  // of the tile's 16 rows each
  return tile.row + slot * (SWIGLU ? 8 : 16) + threadIdx.x % 32 / 4;
}

// y of a tile, plus residuals.
DEVICE void store(const LinearArgs& a, const Tile& tile, int part, const float (&y)[kAcc]) {
  const MatrixArgs& matrix = a.matrix[tile.matrix];
  const int first = tile.token + threadIdx.x % 4 * 2, row = row_of(tile, part);
  const long next = matrix.rows;
  const bool low = row < matrix.rows, high = row + 8 < matrix.rows;
  constexpr int kTogether = 4;  // residuals are read a few at a time
#pragma unroll
  for (int t = 0; t < TOKENS / 8; t += kTogether) {
    float z[kTogether][4] = {};
#pragma unroll
    for (int u = 0; u < kTogether; u++)
#pragma unroll
      for (int i = 0; i < 4 && matrix.residual; i++) {
        const int token = first + (t + u) * 8 + i % 2;
        if (token < a.rows && (i < 2 ? low : high)) z[u][i] = matrix.residual[token * next + row + i / 2 * 8];
      }
#pragma unroll
    for (int u = 0; u < kTogether; u++)
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const int token = first + (t + u) * 8 + i % 2;
        const float v = y[(t + u) * 4 + i] * kSumScale;
        if (token < a.rows && (i < 2 ? low : high))
          matrix.out[token * next + row + i / 2 * 8] = matrix.residual ? v + z[u][i] : v;
      }
  }
}

// silu(gate) * up of a tile. Of two neighbours each gets both rows of one row of x.
DEVICE void store_swiglu(const LinearArgs& a, const Tile& tile, int part, const float (&y)[kAcc]) {
  const int odd = threadIdx.x / 4 % 2, row = row_of(tile, part) - odd;
#pragma unroll
  for (int t = 0; t < TOKENS / 8; t++) {
    const int token = tile.token + t * 8 + threadIdx.x % 4 * 2 + odd;
    const float first = silu(y[t * 4] * kSumScale) * (y[t * 4 + 2] * kSumScale),
                second = silu(y[t * 4 + 1] * kSumScale) * (y[t * 4 + 3] * kSumScale);
    const float got = __shfl_xor_sync(~0u, odd ? first : second, 4);
    const u32 both = odd ? pack_bf16(got, second) : pack_bf16(first, got);
    if (row < a.matrix[0].rows && token < a.rows) *(u32*)(a.tiles + tile_index(token, row, a.tiles_rows)) = both;
  }
}

// The sums of a segment, for add_up().
DEVICE void store_segment(const LinearArgs& a, const Tile& tile, int part, const float (&y)[kAcc], int segment) {
  const int first = tile.token + threadIdx.x % 4 * 2, row = row_of(tile, part);
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const MatrixArgs& matrix = a.matrix[SWIGLU ? i / 2 : tile.matrix];
    const int own = SWIGLU ? row : row + i / 2 * 8;
    if (own >= matrix.rows) continue;
    float* to = a.partial + ((long)segment * a.rows + first + i % 2) * a.partial_width + matrix.column + own;
#pragma unroll
    for (int t = 0; t < TOKENS / 8; t++)
      if (first + i % 2 + t * 8 < a.rows) to[(long)t * 8 * a.partial_width] = y[t * 4 + i];
  }
}

// A part's record of a stage. With SWIGLU half a record of each matrix: 8 rows.
DEVICE void read_part(const u8* stage, int part, Record& record) {
  const int lane = threadIdx.x % 32, slot = (threadIdx.x / 128 * kParts + part) * 4 + threadIdx.x / 32 % 4;
  if (!SWIGLU) {
    const u8* at = stage + slot * kRecordBytes;
    return read_record(at + lane * 16, at + kCodeBytes + lane / 4 * 8, record);
  }
  const int half = slot % 2;
#pragma unroll
  for (int m = 0; m < 2; m++) {
    const u8* at = stage + (m * (kRecords / 2) + slot / 2) * kRecordBytes;
#pragma unroll
    for (int i = 0; i < kCodeWords / 4; i++) {
      const u8* words = at + i * 512 + lane * 16;
      if (DENSE) {
        record.codes[i * 4 + m] = *(const u32*)(words + half * 4);
        record.codes[i * 4 + m + 2] = *(const u32*)(words + half * 4 + 8);
      } else {
        *(uint2*)&record.codes[i * 4 + m * 2] = *(const uint2*)(words + half * 8);
      }
    }
#pragma unroll
    for (int g = 0; g < kScaleWords / 2; g++)
      record.scales[g * 2 + m] = *(const u32*)(at + kCodeBytes + g * 64 + lane / 4 * 8 + half * 4);
  }
}

DEVICE void fragments(const Record& record, u32 (&f)[kFragments][4]) {
#pragma unroll
  for (int g = 0; g < kGroups; g++) {
    const Scales s = scales_of(record, g);
#pragma unroll
    for (int j = g * 4 / kGroups; j < (g + 1) * 4 / kGroups; j++)
#pragma unroll
      for (int p = 0; p < PLANES; p++) fragment(record, s, p, j, f[j * PLANES + p]);
  }
}

// Until here the products read f, which the compiler does not know.
DEVICE void keep(const u32 (&f)[kFragments][4]) {
#pragma unroll
  for (int j = 0; j < kFragments; j++) asm volatile("" ::"r"(f[j][0]), "r"(f[j][1]), "r"(f[j][2]), "r"(f[j][3]) : "memory");
}
DEVICE void keep(float (&acc)[kAcc]) {
#pragma unroll
  for (int j = 0; j < kAcc; j++) asm volatile("" : "+f"(acc[j])::"memory");
}

// A place in the ring of stages.
struct Ring {
  int stage = 0, phase = 0;
  __device__ void advance() {
    if (++stage == kStages) stage = 0, phase ^= 1;
  }
};

// A warpgroup that multiplies.
DEVICE void consume(const LinearArgs& a, u8* shared, u64* full, u64* empty) {
  const u64 tiles_of_x = descriptor(shared_address(shared));
  const bool first_lane = threadIdx.x % 32 == 0;
  Ring ring, ahead;  // of the products, of what is read
  constexpr int kUnroll = kParts == 1 ? 2 : 1, kJobs = kUnroll * kParts;
  const int count = tile_count(a);
  for (int index = blockIdx.x; index < count; index += gridDim.x) {
    const Tile tile = tile_of(a, index);
    float acc[kParts][kAcc], totals[kParts][kTotals];
#pragma unroll
    for (int i = 0; i < kParts; i++)
#pragma unroll
      for (int j = 0; j < kTotals; j++) totals[i][j] = 0.0f;
    Record record;
    u32 f[2][kFragments][4];
    // Jobs are an input tile's products with a part. A job's record is read, and turned into fragments, while the
    // products of the one before run.
    int k_read = tile.k0;
    const auto read = [&](int part) {
      if (k_read == tile.k1) return;
      if (part == 0) barrier_wait(full + ahead.stage, ahead.phase);
      read_part(shared + ahead.stage * kStageBytes + kXBytes, part, record);
      if (part == kParts - 1) ahead.advance(), k_read++;
    };
    read(0);
    fragments(record, f[0]);
    read(kParts == 1 ? 0 : 1);
    int segment = tile.segment, segment_end = (segment + 1) * a.input_tiles / kSegments;
    while (segment_end <= tile.k0) segment_end = (++segment + 1) * a.input_tiles / kSegments;
    bool add = false;
    for (int k = tile.k0; k < tile.k1; k += kUnroll)
#pragma unroll
      for (int job = 0; job < kJobs; job++) {
        const int part = job % kParts, own = k + job / kParts;
        if (kParts == 1 && job == 1 && own == tile.k1) break;
        const u64 x = tiles_of_x + ring.stage * (kStageBytes / 16);
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < kFragments; i++) wgmma(acc[part], f[job % 2][i], x + i / PLANES * 16, add || i > 0);
        wgmma_commit();
        // The job before has ended: so has, after a stage's last job, the use of the stage.
        wgmma_wait<1>();
        keep(f[(job + 1) % 2]);
        if (part == 0 && own > tile.k0 && first_lane) barrier_arrive(empty + (ring.stage > 0 ? ring.stage : kStages) - 1);
        if (own + 1 < tile.k1 || part + 1 < kParts) {
          fragments(record, f[(job + 1) % 2]);
          read((part + 2) % kParts);
        }
        if (part + 1 < kParts) continue;
        ring.advance();
        add = own + 1 < segment_end;
        if (add) continue;
        wgmma_wait<0>();
        keep(f[job % 2]);
#pragma unroll
        for (int i = 0; i < kParts; i++) {
          keep(acc[i]);
          if (SPLIT > 1) {
            store_segment(a, tile, i, acc[i], segment);
          } else {
#pragma unroll
            for (int j = 0; j < kTotals; j++) totals[i][j] += acc[i][j];
          }
        }
        while (segment_end <= own + 1 && segment + 1 < kSegments) segment_end = (++segment + 1) * a.input_tiles / kSegments;
      }
    if (tile.k0 < tile.k1 && first_lane) barrier_arrive(empty + (ring.stage > 0 ? ring.stage : kStages) - 1);
    if (SPLIT > 1) continue;
    wait_for_previous();
#pragma unroll
    for (int i = 0; i < kParts; i++) {
#if SPLIT == 1
      if (SWIGLU)
        store_swiglu(a, tile, i, totals[i]);
      else
        store(a, tile, i, totals[i]);
#endif
    }
  }
}

KERNEL __launch_bounds__(kThreads, 1) gemm(const __grid_constant__ LinearArgs a) {
  extern __shared__ __align__(1024) u8 shared[];
  u64 *full = (u64*)(shared + kStages * kStageBytes), *empty = full + kStages;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; i++) {
      barrier_init(full + i, 1);
      barrier_init(empty + i, kWarps);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  let_next_start();
  // Registers go from the warpgroup that copies to those that multiply.
  if (threadIdx.x >= kConsumers) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    produce(a, shared, full, empty);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    consume(a, shared, full, empty);
  }
}

// Adds a split tile's segments in order: a block has a row of x, a thread two neighbouring weight rows.
KERNEL add_up(const __grid_constant__ LinearArgs a) {
  let_next_start();
  wait_for_previous();
  const int token = blockIdx.y, at = (blockIdx.x * 256 + threadIdx.x) * 2;
  const auto total = [&](int column, float sum[2]) {
    const float* from = a.partial + (long)token * a.partial_width + column;
    float2 v[kSegments];
#pragma unroll
    for (int s = 0; s < kSegments; s++) v[s] = *(const float2*)(from + (long)s * a.rows * a.partial_width);
    sum[0] = sum[1] = 0.0f;
#pragma unroll
    for (int s = 0; s < kSegments; s++) sum[0] += v[s].x, sum[1] += v[s].y;
    sum[0] *= kSumScale, sum[1] *= kSumScale;
  };
  float y[2];
  if (SWIGLU) {
    if (at >= a.matrix[0].rows) return;
    float up[2];
    total(a.matrix[0].column + at, y);
    total(a.matrix[1].column + at, up);
    const u16 second = at + 1 < a.matrix[0].rows ? to_bf16(silu(y[1]) * up[1]) : 0;
    *(u32*)(a.tiles + tile_index(token, at, a.tiles_rows)) = to_bf16(silu(y[0]) * up[0]) | (u32)second << 16;
    return;
  }
  int m = 0;
  while (m + 1 < a.matrices && at >= a.matrix[m + 1].column) m++;
  const MatrixArgs& matrix = a.matrix[m];
  const int row = at - matrix.column;
  if (row >= matrix.rows) return;
  total(at, y);
  for (int i = 0; i < 2 && row + i < matrix.rows; i++) {
    const long to = (long)token * matrix.rows + row + i;
    matrix.out[to] = matrix.residual ? y[i] + matrix.residual[to] : y[i];
  }
}
