// y = x W^T for many rows of x on Hopper's tensor cores (wgmma): the same sums in the same order as gemv.cu, so
// the same bits. A block takes tiles of 128 weight rows (with SWIGLU of both matrices) by TOKENS rows of x, one
// after the other. A warpgroup has weights, x and sums of x brought into shared memory, some stages ahead; two
// others turn weights into fragments in registers and multiply: one's products run beside the other's scaling.
constexpr int kWarps = 8, kConsumers = 32 * kWarps, kThreads = kConsumers + 128;
constexpr int kTiles = SWIGLU ? 2 : 1, kRecords = 8 * kTiles;  // a record has 16 weight rows
constexpr int kXBytes = TOKENS * 128, kSumBytes = DENSE ? 0 : TOKENS * 4;  // of a group
constexpr int kWeightsAt = kXBytes, kSumsAt = kWeightsAt + kRecords * kRecordBytes;
constexpr int kStageBytes = kSumsAt + GROUPS * kSumBytes;
constexpr int kAcc = TOKENS / 2, kTotalBytes = kTiles * 128 * TOKENS * 4;
constexpr int kStages = (227 * 1024 - kTotalBytes - 256) / kStageBytes;
static_assert(kStages >= 2 && kStages <= 16, "stages");

#define OUT8(i)                                                                                \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
DEVICE void wgmma(float d[kAcc], const u32 a[4], u64 b, int add) {
#if TOKENS == 128
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
      "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
      "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
      "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63},"
      "{%64,%65,%66,%67}, %68, p, 1, 1, 0;\n}"
      : OUT8(0), OUT8(8), OUT8(16), OUT8(24), OUT8(32), OUT8(40), OUT8(48), OUT8(56)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));
#else
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
      "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31},"
      "{%32,%33,%34,%35}, %36, p, 1, 1, 0;\n}"
      : OUT8(0), OUT8(8), OUT8(16), OUT8(24)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));
#endif
}

// A tile of the product: 128 weight rows of a matrix, from `row`, and rows of x.
struct Tile {
  int matrix, row, row_tile;
};
DEVICE Tile tile_of(const LinearArgs& a, int index) {
  const int across = (a.rows + TOKENS - 1) / TOKENS, unit = index / across;
  int m = 0;
  while (!SWIGLU && m + 1 < a.matrices && unit >= a.matrix[m + 1].first) m++;
  return {m, (unit - a.matrix[m].first) * 128, index % across * (TOKENS / 8)};
}
DEVICE int tile_count(const LinearArgs& a) { return a.units * ((a.rows + TOKENS - 1) / TOKENS); }

// The warpgroup that brings stages: each warp a quarter of the weights, the first also x and the second its sums.
DEVICE void produce(const LinearArgs& a, u8* shared, u64* full, u64* empty) {
  if (threadIdx.x % 32 > 0) return;
  constexpr int kEach = kRecords / 4;
  const int warp = threadIdx.x / 32 % 4, count = tile_count(a);
  int stage = 0, phase = 1;
  wait_for_previous();
  for (int index = blockIdx.x; index < count; index += gridDim.x) {
    const Tile tile = tile_of(a, index);
    const int first = warp * kEach, m = SWIGLU ? first / 8 : tile.matrix;
    const int own = tile.row / 16 + first % 8, last = (a.matrix[m].rows + 15) / 16 - 1;
    const long stride = (long)a.input_tiles * kRecordBytes;
    const u8* weights = a.matrix[m].weights;
    const u8* x = (const u8*)a.x + (long)tile.row_tile * 1024;
    const float* sums = a.sums + (long)tile.row_tile * 8;
    for (int k = 0; k < a.input_tiles; k++) {
      u8* to = shared + stage * kStageBytes;
      barrier_wait(empty + stage, phase);
      if (warp == 0) {
        barrier_expect(full + stage, kStageBytes);
        copy_bulk(to, x, kXBytes, full + stage);
      }
#pragma unroll
      for (int i = 0; i < kEach; i++)
        copy_bulk(to + kWeightsAt + (first + i) * kRecordBytes, weights + min(own + i, last) * stride, kRecordBytes,
                  full + stage);
      if (!DENSE && warp == 1)
        for (int g = 0; g < GROUPS; g++)
          copy_bulk(to + kSumsAt + g * kSumBytes, sums + (long)g * a.row_tiles * 8, kSumBytes, full + stage);
      weights += kRecordBytes;
      x += (long)a.row_tiles * 1024;
      sums += (long)GROUPS * a.row_tiles * 8;
      if (++stage == kStages) stage = 0, phase ^= 1;
    }
  }
}

// y of a tile from its totals: a thread has rows r, r + 8 of its warp's 16 and rows 2q, 2q + 1 of each 8 of x.
DEVICE void store(const LinearArgs& a, const Tile& tile, const float4* mine) {
  const MatrixArgs& matrix = a.matrix[tile.matrix];
  const int first = tile.row_tile * 8 + threadIdx.x % 4 * 2;
  const int row = tile.row + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
  const long next = matrix.rows;
  const bool low = row < matrix.rows, high = row + 8 < matrix.rows;
  constexpr int kTogether = 8;  // residuals are read a few at a time
  for (int t = 0; t < TOKENS / 8; t += kTogether) {
    const long at = (first + t * 8) * next + row;
    float y[kTogether][4];
#pragma unroll
    for (int u = 0; u < kTogether; u++) {
      const int token = first + (t + u) * 8;
      const bool here = matrix.residual && token < a.rows, also = matrix.residual && token + 1 < a.rows;
      const float* from = matrix.residual + at + u * 8 * next;
      y[u][0] = here && low ? from[0] : 0.0f, y[u][2] = here && high ? from[8] : 0.0f;
      y[u][1] = also && low ? from[next] : 0.0f, y[u][3] = also && high ? from[next + 8] : 0.0f;
    }
#pragma unroll
    for (int u = 0; u < kTogether; u++) {
      const int token = first + (t + u) * 8;
      const bool here = token < a.rows, also = token + 1 < a.rows;
      const float4 v = mine[(t + u) * kConsumers];
      float* to = matrix.out + at + u * 8 * next;
      if (here && low) to[0] = matrix.residual ? v.x + y[u][0] : v.x;
      if (also && low) to[next] = matrix.residual ? v.y + y[u][1] : v.y;
      if (here && high) to[8] = matrix.residual ? v.z + y[u][2] : v.z;
      if (also && high) to[next + 8] = matrix.residual ? v.w + y[u][3] : v.w;
    }
  }
}

// silu(gate) * up of a tile: a thread has both.
DEVICE void store_swiglu(const LinearArgs& a, const Tile& tile, const float4* mine) {
  const int lane = threadIdx.x % 32, odd = lane / 4 % 2, row = tile.row + threadIdx.x / 32 * 16 + lane / 4 - odd;
#pragma unroll 4
  for (int t = 0; t < TOKENS / 8; t++) {
    const int token = (tile.row_tile + t) * 8 + 2 * (lane % 4) + odd;
    const float4 gate = mine[t * kConsumers], up = mine[(TOKENS / 8 + t) * kConsumers];
    const float y[4] = {silu(gate.x) * up.x, silu(gate.y) * up.y, silu(gate.z) * up.z, silu(gate.w) * up.w};
#pragma unroll
    for (int h = 0; h < 2; h++) {
      // Of two neighbours each gets both rows of one token.
      const float got = __shfl_xor_sync(~0u, odd ? y[2 * h] : y[2 * h + 1], 4);
      const u32 both = odd ? pack_bf16(got, y[2 * h + 1]) : pack_bf16(y[2 * h], got);
      if (row + h * 8 < a.matrix[0].rows && token < a.rows)
        *(u32*)(a.tiles + tile_index(token, row + h * 8, a.tiles_rows)) = both;
    }
  }
}

// Ends a segment: its sums go to the thread's totals.
DEVICE void add_segment(float acc[kAcc], float4* totals, bool first) {
#pragma unroll
  for (int t = 0; t < kAcc / 4; t++) {
    float4 v = first ? make_float4(0.0f, 0.0f, 0.0f, 0.0f) : totals[t * kConsumers];
    v.x += acc[t * 4], v.y += acc[t * 4 + 1], v.z += acc[t * 4 + 2], v.w += acc[t * 4 + 3];
    totals[t * kConsumers] = v;
    acc[t * 4] = acc[t * 4 + 1] = acc[t * 4 + 2] = acc[t * 4 + 3] = 0.0f;
  }
}

// `sums` of x over a group: a lane's four of each 16 rows lie together.
DEVICE void add_bias(float acc[kAcc], const float bias[2], const float4* sums) {
#pragma unroll
  for (int t = 0; t < TOKENS / 16; t++) {
    const float4 sum = sums[t * 4];
    const float of[4] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
    for (int j = 0; j < 8; j++)
      acc[t * 8 + j] = __fmaf_rn(bias[j % 4 / 2], of[j / 4 * 2 + j % 2], acc[t * 8 + j]);
  }
}

// A warpgroup that multiplies: 64 of each 128 weight rows.
DEVICE void consume(const LinearArgs& a, u8* shared, float4* totals, u64* full, u64* empty) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const u32 nibbles = low_nibbles(a);
  const u64 tiles_of_x = descriptor(shared_address(shared));
  const u8* codes = shared + kWeightsAt + warp * kRecordBytes + lane * 16;
  const u8* scales = shared + kWeightsAt + warp * kRecordBytes + kCodeBytes + lane / 4 * kScaleWords * 4;
  const u8* sums = shared + kSumsAt + lane % 4 * 16;
  float4* mine = totals + threadIdx.x;
  float acc[kTiles][kAcc];
#pragma unroll
  for (int i = 0; i < kTiles; i++)
#pragma unroll
    for (int j = 0; j < kAcc; j++) acc[i][j] = 0.0f;
  int stage = 0, phase = 0;
  Record record;
  const auto read = [&](int its_stage, int i) {
    const int at = its_stage * kStageBytes + i * kWarps * kRecordBytes;
    read_record(codes + at, scales + at, record);
  };
  const int count = tile_count(a);
  for (int index = blockIdx.x; index < count; index += gridDim.x) {
    int segment = 0, segment_end = 0;
    bool first = true, ended = false;  // the first segment; one ended with the step before
    barrier_wait(full + stage, phase);
    read(stage, 0);
    for (int k = 0; k < a.input_tiles; k++) {
      constexpr int kGroups = DENSE ? 1 : GROUPS, kSteps = 4 / kGroups, kPasses = kGroups * kTiles;
      const u64 x = tiles_of_x + stage * (kStageBytes / 16);
      const int this_stage = stage;
      if (++stage == kStages) stage = 0, phase ^= 1;
#pragma unroll
      for (int pass = 0; pass < kPasses; pass++) {
        const int g = pass / kTiles, i = pass % kTiles;
        Scales s;
        if (!DENSE) s = scales_of(record, g);
#pragma unroll
        for (int p = 0; p < PLANES; p++) {
          float part[kAcc];
          u32 f[kSteps][4];
#pragma unroll
          for (int j = 0; j < kSteps; j++) fragment(record, p, g * kSteps + j, nibbles, f[j]);
          asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
          for (int j = 0; j < kSteps; j++) wgmma(part, f[j], x + (g * kSteps + j) * 16, j > 0);
          asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
          // While these products run: what they do not need.
          if (p == 0 && g == 0 && ended) add_segment(acc[i], mine + i * (kAcc / 4) * kConsumers, first);
          if (p == PLANES - 1 && pass + 1 < kPasses) read(this_stage, (pass + 1) % kTiles);
          if (p == PLANES - 1 && pass + 1 == kPasses && k + 1 < a.input_tiles) {
            barrier_wait(full + stage, phase);
            read(stage, 0);
          }
          asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
          // Until here the products read f, which the compiler does not know.
#pragma unroll
          for (int j = 0; j < kSteps; j++) asm volatile("" ::"r"(f[j][0]), "r"(f[j][1]), "r"(f[j][2]), "r"(f[j][3]));
#pragma unroll
          for (int j = 0; j < kAcc; j++) asm volatile("" : "+f"(part[j])::"memory");
#pragma unroll
          for (int j = 0; j < kAcc; j++) acc[i][j] = add_plane(acc[i][j], part[j], s.scale[j % 4 / 2], p);
        }
        if (!DENSE) add_bias(acc[i], s.bias, (const float4*)(sums + this_stage * kStageBytes + g * kSumBytes));
      }
      __syncwarp();
      if (lane == 0) barrier_arrive(empty + this_stage);
      if (ended) first = false;
      while (segment_end <= k) segment_end = ++segment * a.input_tiles / kSegments;
      ended = k + 1 == segment_end;
    }
#pragma unroll
    for (int i = 0; i < kTiles; i++) add_segment(acc[i], mine + i * (kAcc / 4) * kConsumers, first);
    wait_for_previous();
    const Tile tile = tile_of(a, index);
    if (SWIGLU)
      store_swiglu(a, tile, mine);
    else
      store(a, tile, mine);
  }
}

KERNEL __launch_bounds__(kThreads, 1) gemm(const __grid_constant__ LinearArgs a) {
  extern __shared__ __align__(1024) u8 shared[];
  float4* totals = (float4*)(shared + kStages * kStageBytes);  // [kAcc / 4][kConsumers]: each thread's own
  u64 *full = (u64*)((u8*)totals + kTotalBytes), *empty = full + kStages;
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
    consume(a, shared, totals, full, empty);
  }
}

// Sums of x over each group, [input tile][GROUPS][8 * row_tiles], by the tensor cores as in gemv.cu. One warp
// for each tile. Of 16 rows a lane of gemm() reads rows 2q, 2q + 1, 2q + 8 and 2q + 9, which lie together.
KERNEL sums(const __grid_constant__ LinearArgs a) {
  wait_for_previous();
  let_next_start();
  const int lane = threadIdx.x % 32, tile = blockIdx.x * 8 + threadIdx.x / 32;
  if (DENSE || tile >= a.input_tiles * a.row_tiles) return;
  const u32* x = a.x + (long)tile * 256 + lane;
  const int row_tile = tile % a.row_tiles;
  const u32 ones[4] = {0x3F803F80u, 0x3F803F80u, 0x3F803F80u, 0x3F803F80u};
  constexpr int kSteps = 4 / GROUPS;
  for (int g = 0; g < GROUPS; g++) {
    float sum[4] = {};
    for (int j = g * kSteps; j < (g + 1) * kSteps; j++) mma_bf16(sum, ones, x[2 * j * 32], x[(2 * j + 1) * 32]);
    if (lane / 4 == 0)
      *(float2*)((float*)a.sums + (((long)(tile / a.row_tiles) * GROUPS + g) * a.row_tiles + row_tile / 2 * 2) * 8 +
                 lane * 4 + row_tile % 2 * 2) = make_float2(sum[0], sum[1]);
  }
}
