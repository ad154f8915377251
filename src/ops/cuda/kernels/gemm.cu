// y = x W^T for many rows of x on Hopper's tensor cores (wgmma): the same sums in the same order as gemv.cu,
// so the same bits. A block takes tiles of ROWS weight rows (with SWIGLU half from each matrix) by TOKENS
// rows of x, one after the other. One warpgroup loads weights and x into shared memory, some stages ahead.
// Two or three others convert weights to fragments in registers while their previous products still run; each
// has kParts times 64 of the rows. With SPLIT, a tile's segments are distributed to SPLIT blocks.
constexpr int SWIGLU = kVariant.swiglu, ROWS = kVariant.rows, TOKENS = kVariant.tokens, SPLIT = kVariant.split;
constexpr int kMultiplying = ROWS % 192 == 0 ? 3 : 2, kParts = ROWS / 64 / kMultiplying;  // warpgroups
constexpr int kWarps = 4 * kMultiplying, kConsumers = 32 * kWarps, kThreads = kConsumers + 128;
constexpr int kRecords = ROWS / 16, kTileRows = SWIGLU ? ROWS / 2 : ROWS;  // of a matrix
constexpr int kXBytes = TOKENS * 128, kStageBytes = kXBytes + kRecords * kRecordBytes;
constexpr int kAcc = TOKENS / 2, kFragments = 4 * PLANES;
constexpr int kFitting = (227 * 1024 - 256) / kStageBytes, kStages = kFitting < 12 ? kFitting : 12;
constexpr int kTotals = SPLIT > 1 ? 4 : kAcc;
constexpr int kTogether = kTotals < 32 ? kTotals / 4 : 8;  // times 8 rows of x: residuals loaded together
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

// A position in the ring of stages.
struct Ring {
  int stage, phase;
  __device__ void advance() {
    if (++stage == kStages) stage = 0, phase ^= 1;
  }
  __device__ int before() const { return (stage > 0 ? stage : kStages) - 1; }
};

// The warpgroup that loads stages: one lane loads x in one copy, three warps load the weights, 16 bytes per
// lane (faster than one lane copying whole records). The first weights are loaded before the previous kernel
// has ended.
constexpr int kLanes = 96, kRecordPieces = kRecordBytes / 16, kPieces = kRecords * kRecordPieces;
constexpr int kEach = (kPieces + kLanes - 1) / kLanes;
DEVICE void bring_weights(const LinearArgs& a, u32 shared, u64* full, u64* empty) {
  const int lane = threadIdx.x - kConsumers, count = tile_count(a);
  const u32 stride = a.input_tiles * kRecordPieces;
  Ring ring{0, 1};
  for (int index = blockIdx.x; index < count; index += gridDim.x) {
    const Tile tile = tile_of(a, index);
    u32 from[kEach];  // offsets in pieces
#pragma unroll
    for (int i = 0; i < kEach; i++) {
      const int piece = lane + i * kLanes, record = piece / kRecordPieces % (SWIGLU ? kRecords / 2 : kRecords);
      const int last = (a.matrix[tile.matrix].rows + 15) / 16 - 1;
      from[i] = min(tile.row / 16 + record, last) * stride + piece % kRecordPieces;
    }
    const u8 *first = a.matrix[tile.matrix].weights + (long)tile.k0 * kRecordBytes,
             *second = a.matrix[SWIGLU].weights + (long)tile.k0 * kRecordBytes;
#pragma unroll 1
    for (int k = tile.k0; k < tile.k1; k++, ring.advance()) {
      barrier_wait(empty + ring.stage, ring.phase);
      const u32 to = shared + ring.stage * kStageBytes + kXBytes + lane * 16;
#pragma unroll
      for (int i = 0; i < kEach; i++) {
        const int piece = lane + i * kLanes;
        const u8* matrix = SWIGLU && piece >= kPieces / 2 ? second : first;
        copy16_async(to + i * kLanes * 16, matrix + (long)from[i] * 16, piece < kPieces);
      }
      first += kRecordBytes, second += kRecordBytes;
      barrier_arrive_after_copies(full + ring.stage);
    }
  }
}
DEVICE void bring_x(const LinearArgs& a, u8* shared, u64* full, u64* empty) {
  const int count = tile_count(a);
  const long stride = (long)a.row_tiles * 1024;
  Ring ring{0, 1};
  wait_for_previous();
  for (int index = blockIdx.x; index < count; index += gridDim.x) {
    const Tile tile = tile_of(a, index);
    const u8* x = (const u8*)a.x + tile.k0 * stride + (long)tile.token * 128;
    for (int k = tile.k0; k < tile.k1; k++, x += stride, ring.advance()) {
      u8* to = shared + ring.stage * kStageBytes;
      barrier_wait(empty + ring.stage, ring.phase);
      barrier_expect(full + ring.stage, kXBytes);
      copy_bulk(to, x, kXBytes, full + ring.stage);
    }
  }
}

// The output rows of a thread's numbers in a part: of 64 rows, a warp has 16. A thread has rows r, r + 8
// (SWIGLU: row r of both matrices) and rows 2q, 2q + 1 of every 8 rows of x.
DEVICE int row_of(const Tile& tile, int part) {
  const int slot = (threadIdx.x / 128 * kParts + part) * 4 + threadIdx.x / 32 % 4;  // the warp's 16 rows
  return tile.row + slot * (SWIGLU ? 8 : 16) + threadIdx.x % 32 / 4;
}

// Stores y for `COUNT` times 8 rows of x, beginning with the tile's row 8 * `t`, plus residuals, which are
// loaded together.
template <int COUNT>
DEVICE void store(const LinearArgs& a, const Tile& tile, int part, int t, const float* y) {
  const MatrixArgs& matrix = a.matrix[tile.matrix];
  const int first = tile.token + t * 8 + threadIdx.x % 4 * 2, row = row_of(tile, part);
  const long at = (long)first * matrix.rows + row;
  const bool low = row < matrix.rows, high = row + 8 < matrix.rows;
  const auto here = [&](int i) { return first + i / 4 * 8 + i % 2 < a.rows && (i % 4 < 2 ? low : high); };
  const auto place = [&](int i) { return at + (long)(i / 4 * 8 + i % 2) * matrix.rows + i % 4 / 2 * 8; };
  float z[COUNT * 4];
  if (matrix.residual)
#pragma unroll
    for (int i = 0; i < COUNT * 4; i++) z[i] = here(i) ? matrix.residual[place(i)] : 0.0f;
#pragma unroll
  for (int i = 0; i < COUNT * 4; i++)
    if (here(i)) matrix.out[place(i)] = matrix.residual ? y[i] * kSumScale + z[i] : y[i] * kSumScale;
}

// silu(gate) * up for 8 rows of x. Two neighbouring lanes exchange values, so that each has both rows of one
// row of x.
DEVICE void store_swiglu(const LinearArgs& a, const Tile& tile, int part, int t, const float* y) {
  const int odd = threadIdx.x / 4 % 2, row = row_of(tile, part) - odd;
  const int token = tile.token + t * 8 + threadIdx.x % 4 * 2 + odd;
  const float first = silu(y[0] * kSumScale) * (y[2] * kSumScale), second = silu(y[1] * kSumScale) * (y[3] * kSumScale);
  const float got = __shfl_xor_sync(~0u, odd ? first : second, 4);
  const u32 both = odd ? pack_bf16(got, second) : pack_bf16(first, got);
  if (row < a.matrix[0].rows && token < a.rows) *(u32*)(a.tiles + tile_index(token, row, a.tiles_rows)) = both;
}

template <int COUNT>
DEVICE void store_any(const LinearArgs& a, const Tile& tile, int part, int t, const float* y) {
  if (!SWIGLU) return store<COUNT>(a, tile, part, t, y);
#pragma unroll
  for (int i = 0; i < COUNT; i++) store_swiglu(a, tile, part, t + i, y + i * 4);
}

// A split tile's sums of segments, in the threads' layout, in the cache that all blocks share.
struct Partial {
  float4* sums;  // [segment][part][8 rows of x][thread]
  __device__ Partial(const LinearArgs& a, int index)
      : sums((float4*)a.partial + (long)(index / SPLIT) * (kSegments * kParts * (TOKENS / 8) * kConsumers) +
             threadIdx.x) {}
  __device__ float4& at(int segment, int part, int t) const {
    return sums[((segment * kParts + part) * (TOKENS / 8) + t) * kConsumers];
  }
  __device__ void write(int segment, int part, const float (&y)[kAcc]) const {
#pragma unroll
    for (int t = 0; t < TOKENS / 8; t++)
      at(segment, part, t) = make_float4(y[t * 4], y[t * 4 + 1], y[t * 4 + 2], y[t * 4 + 3]);
  }
  __device__ float4 total(int part, int t) const {
    float4 v[kSegments], sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
    for (int s = 0; s < kSegments; s++) v[s] = __ldcg(&at(s, part, t));
#pragma unroll
    for (int s = 0; s < kSegments; s++) sum.x += v[s].x, sum.y += v[s].y, sum.z += v[s].z, sum.w += v[s].w;
    return sum;
  }
};

// Waits until the tile's other blocks have written their sums, then adds and stores this block's share. A
// tile's counter counts up to SPLIT as blocks write, further up as they finish reading, and wraps to 0. All
// blocks of the launch run at the same time.
DEVICE void add_up(const LinearArgs& a, int index) {
  u32* counter = a.counters + index / SPLIT;
  if (threadIdx.x == 0)
    while (load_acquire(counter) < SPLIT) {
    }
  barrier_sync(1, kConsumers);
  const Tile tile = tile_of(a, index);
  const Partial partial(a, index);
  for (int i = index % SPLIT; i < kParts * (TOKENS / 8); i += SPLIT) {
    const float4 sum = partial.total(i / (TOKENS / 8), i % (TOKENS / 8));
    const float y[4] = {sum.x, sum.y, sum.z, sum.w};
    store_any<1>(a, tile, i / (TOKENS / 8), i % (TOKENS / 8), y);
  }
  barrier_sync(1, kConsumers);
  if (threadIdx.x == 0) atomicInc(counter, 2 * SPLIT - 1);
}

// Reads a part's record of a stage. With SWIGLU, half a record of each matrix: 8 rows.
DEVICE void read_part(const u8* stage, int part, Record& record) {
  const int lane = threadIdx.x % 32, slot = (threadIdx.x / 128 * kParts + part) * 4 + threadIdx.x / 32 % 4;
  if (!SWIGLU) {
    const u8* at = stage + slot * kRecordBytes;
    return read_record(at, record);
  }
  const int half = slot % 2;
#pragma unroll
  for (int m = 0; m < 2; m++) {
    const u8* at = stage + (m * (kRecords / 2) + slot / 2) * kRecordBytes;
#pragma unroll
    for (int i = 0; i < kCodeWords / 4; i++) {
      const u8* words = at + i * 512 + lane * 16;
      if (kDense || KIND == kE4m3) {
        record.codes[i * 4 + m] = *(const u32*)(words + half * 4);
        record.codes[i * 4 + m + 2] = *(const u32*)(words + half * 4 + 8);
      } else {
        *(uint2*)&record.codes[i * 4 + m * 2] = *(const uint2*)(words + half * 8);
      }
    }
#pragma unroll
    for (int g = 0; g < (kDense ? 0 : GROUPS); g++) {
      const u8* scale = at + kCodeBytes + g * 16 * kScaleBytes + (lane / 4 * 2 + half) * kScaleBytes;
      if (kBiased)
        record.scales[g * 2 + m] = *(const u32*)scale;
      else
        record.scales[g] = (m == 0 ? 0 : record.scales[g]) | (u32)*(const u16*)scale << m * 16;
    }
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

// The products read f until here, which the compiler does not know.
DEVICE void keep(const u32 (&f)[kFragments][4]) {
#pragma unroll
  for (int j = 0; j < kFragments; j++)
    asm volatile("" ::"r"(f[j][0]), "r"(f[j][1]), "r"(f[j][2]), "r"(f[j][3]) : "memory");
}
DEVICE void keep(float (&acc)[kAcc]) {
#pragma unroll
  for (int j = 0; j < kAcc; j++) asm volatile("" : "+f"(acc[j])::"memory");
}

// The work of a warpgroup that multiplies.
DEVICE void consume(const LinearArgs& a, u8* shared, u64* full, u64* empty) {
  const u64 tiles_of_x = descriptor(shared_address(shared));
  const bool first_lane = threadIdx.x % 32 == 0;
  Ring ring{0, 0}, ahead{0, 0};  // position of the products; position of the reads
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
    // A job is the product of an input tile with a part. A job's record is read and converted to fragments
    // while the products of the previous job run.
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
        // The previous job has ended; after the last job of a stage, the stage is free.
        wgmma_wait<1>();
        keep(f[(job + 1) % 2]);
        if (part == 0 && own > tile.k0 && first_lane) barrier_arrive(empty + ring.before());
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
            Partial(a, index).write(segment, i, acc[i]);
          } else {
#pragma unroll
            for (int j = 0; j < kTotals; j++) totals[i][j] += acc[i][j];
          }
        }
        while (segment_end <= own + 1 && segment + 1 < kSegments)
          segment_end = (++segment + 1) * a.input_tiles / kSegments;
      }
    if (first_lane) barrier_arrive(empty + ring.before());
    if (SPLIT > 1) {
      __threadfence();
      barrier_sync(1, kConsumers);
      if (threadIdx.x == 0) atomicInc(a.counters + index / SPLIT, 2 * SPLIT - 1);
      continue;
    }
    wait_for_previous();
#pragma unroll
    for (int i = 0; i < kParts; i++)
#pragma unroll
      for (int t = 0; t < kTotals / 4; t += kTogether) store_any<kTogether>(a, tile, i, t, totals[i] + t * 4);
  }
  if (SPLIT == 1) return;
  wait_for_previous();
  for (int index = blockIdx.x; index < count; index += gridDim.x) add_up(a, index);
}

KERNEL __launch_bounds__(kThreads, 1) gemm(const __grid_constant__ LinearArgs a) {
  extern __shared__ __align__(1024) u8 shared[];
  u64 *full = (u64*)(shared + kStages * kStageBytes), *empty = full + kStages;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; i++) {
      barrier_init(full + i, 1 + kLanes);
      barrier_init(empty + i, kWarps);
    }
    barriers_ready();
  }
  __syncthreads();
  let_next_start();
  // Moves registers from the warpgroup that copies to those that multiply.
  if (threadIdx.x >= kConsumers) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kMultiplying == 3 ? 32 : 40));
    if (threadIdx.x < kConsumers + kLanes)
      bring_weights(a, shared_address(shared), full, empty);
    else if (threadIdx.x % 32 == 0)
      bring_x(a, shared, full, empty);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kMultiplying == 3 ? 160 : 232));
    consume(a, shared, full, empty);
  }
}
