// y = x W^T for many rows of x on Hopper's tensor cores (wgmma): the same sums in the same order as gemv.cu, so
// the same bits. A block has 128 weight rows (with SWIGLU 64 of each matrix) and 64 rows of x: two warpgroups
// turn 64 weight rows each into fragments in registers; one thread has tiles of x brought into shared memory.
constexpr int kThreads = 256, kRows = kThreads / 2, kStages = 6, kAhead = 3;
constexpr int kXBytes = 8192, kSumBytes = DENSE ? 0 : GROUPS * 256, kStageBytes = kXBytes + kSumBytes;
constexpr int kTotalStride = 72;

DEVICE void barrier_init(u64* b, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(b)), "r"(count));
}
DEVICE void barrier_arrive(u64* b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(b)) : "memory");
}
DEVICE void barrier_expect(u64* b, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(b)), "r"(bytes)
               : "memory");
}
DEVICE void barrier_wait(u64* b, int phase) {
  asm volatile(
      "{\n.reg .pred p;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra done;\nbra again;\n"
      "done:\n}" ::"r"(shared_address(b)),
      "r"(phase)
      : "memory");
}
DEVICE void copy_bulk(void* to, const void* from, int bytes, u64* b) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(to)),
               "l"(from), "r"(bytes), "r"(shared_address(b))
               : "memory");
}

// Of x's tiles: 8 rows by 16 bytes lie together; the next 16 bytes of inputs 128 bytes on, the next 8 rows 1024.
DEVICE u64 descriptor(u32 address) {
  return (u64)((address & 0x3FFFF) >> 4) | (u64)(128 >> 4) << 16 | (u64)(1024 >> 4) << 32;
}

DEVICE void wgmma(float d[32], const u32 a[4], u64 b, int add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
      "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31},"
      "{%32,%33,%34,%35}, %36, p, 1, 1, 0;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));
}

KERNEL __launch_bounds__(kThreads, 2) gemm(const __grid_constant__ LinearArgs a) {
  extern __shared__ __align__(1024) u8 shared[];
  float* totals = (float*)(shared + kStages * kStageBytes);  // [kRows][kTotalStride]
  u64* full = (u64*)(totals + kRows * kTotalStride);
  u64* empty = full + kStages;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; i++) {
      barrier_init(full + i, 1);
      barrier_init(empty + i, kThreads / 32);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  let_next_start();
  const int row_tile = blockIdx.x * 8;
  int m = 0;
  if (!SWIGLU)
    while (m + 1 < a.matrices && (int)blockIdx.y >= a.matrix[m + 1].first) m++;

  const auto fetch = [&](int k) {
    const int stage = k % kStages, round = k / kStages;
    if (round > 0) barrier_wait(empty + stage, (round - 1) & 1);
    u8* to = shared + stage * kStageBytes;
    barrier_expect(full + stage, kStageBytes);
    copy_bulk(to, (const u8*)a.x + ((long)k * a.row_tiles + row_tile) * 1024, kXBytes, full + stage);
    if (DENSE) return;
    for (int g = 0; g < GROUPS; g++)
      copy_bulk(to + kXBytes + g * 256, a.sums + ((long)k * GROUPS + g) * a.row_tiles * 8 + row_tile * 8, 256,
                full + stage);
  };
  if (threadIdx.x == 0) {
    wait_for_previous();
    for (int k = 0; k < min(kAhead, a.input_tiles); k++) fetch(k);
  }
  {
    if (SWIGLU) m = warp / (kRows / 32);
    const MatrixArgs& matrix = a.matrix[m];
    const int tiles = (matrix.rows + 15) / 16;
    int tile = SWIGLU ? blockIdx.y * (kRows / 32) + warp % (kRows / 32)
                      : ((int)blockIdx.y - matrix.first) * (kRows / 16) + warp;
    if (tile >= tiles) tile = tiles - 1;
    const u8* weights = matrix.weights + (long)tile * a.input_tiles * kRecordBytes;
    float* mine = totals + (warp * 16 + lane / 4) * kTotalStride + lane % 4 * 2;
    float acc[32];
#pragma unroll
    for (int i = 0; i < 32; i++) acc[i] = 0.0f;
#pragma unroll
    for (int t = 0; t < 8; t++)
#pragma unroll
      for (int h = 0; h < 2; h++) *(float2*)(mine + h * 8 * kTotalStride + t * 8) = make_float2(0.0f, 0.0f);
    const u8 *codes = weights + lane * 16, *scales = weights + kCodeBytes + lane / 4 * kScaleWords * 4;
    const u32 nibbles = low_nibbles(a);
    const u64 tiles_of_x = descriptor(shared_address(shared));
    const float* sums_of_x = (const float*)(shared + kXBytes) + lane % 4 * 2;
    int stage = 0, phase = 0;
    int segment = 1, segment_end = a.input_tiles / kSegments;
    while (segment_end == 0) segment_end = ++segment * a.input_tiles / kSegments;
    // Uses a record; what it holds then is the next. (With two on their way, or fragments made earlier, ptxas lets
    // each wgmma wait for the one before.)
    const auto step = [&](Record& record, int k) {
      constexpr int kGroups = DENSE ? 1 : GROUPS, kSteps = 4 / kGroups;
      if (warp == 0) {
        if (lane == 0 && k + kAhead < a.input_tiles) fetch(k + kAhead);
        __syncwarp();
      }
      const u64 x = tiles_of_x + stage * (kStageBytes / 16);
      const float* sums = sums_of_x + stage * (kStageBytes / 4);
      const Record now = record;
      if (k + 1 < a.input_tiles) read_record(codes, scales, (long)(k + 1) * kRecordBytes, record);
      barrier_wait(full + stage, phase);
#pragma unroll
      for (int g = 0; g < kGroups; g++) {
        Scales s;
        if (!DENSE) s = scales_of(now, g);
#pragma unroll
        for (int p = 0; p < PLANES; p++) {
          float part[32];
          u32 f[kSteps][4];
#pragma unroll
          for (int j = 0; j < kSteps; j++) fragment(now, p, g * kSteps + j, nibbles, f[j]);
          asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
          for (int j = 0; j < kSteps; j++) wgmma(part, f[j], x + (g * kSteps + j) * 16, j > 0);
          asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
          asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
          for (int i = 0; i < 32; i++) asm volatile("" : "+f"(part[i])::"memory");
#pragma unroll
          for (int i = 0; i < 32; i++) acc[i] = add_plane(acc[i], part[i], s.scale[i % 4 / 2], p);
        }
        if (DENSE) continue;
#pragma unroll
        for (int t = 0; t < 8; t++) {
          const float2 sum = *(const float2*)(sums + g * 64 + t * 8);
          acc[t * 4 + 0] = __fmaf_rn(s.bias[0], sum.x, acc[t * 4 + 0]);
          acc[t * 4 + 1] = __fmaf_rn(s.bias[0], sum.y, acc[t * 4 + 1]);
          acc[t * 4 + 2] = __fmaf_rn(s.bias[1], sum.x, acc[t * 4 + 2]);
          acc[t * 4 + 3] = __fmaf_rn(s.bias[1], sum.y, acc[t * 4 + 3]);
        }
      }
      __syncwarp();
      if (lane == 0) barrier_arrive(empty + stage);
      if (++stage == kStages) stage = 0, phase ^= 1;
      if (k + 1 < segment_end) return;
#pragma unroll
      for (int t = 0; t < 8; t++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
          float2* at = (float2*)(mine + h * 8 * kTotalStride + t * 8);
          float2 v = *at;
          v.x += acc[t * 4 + h * 2];
          v.y += acc[t * 4 + h * 2 + 1];
          *at = v;
          acc[t * 4 + h * 2] = acc[t * 4 + h * 2 + 1] = 0.0f;
        }
      while (segment < kSegments && segment_end <= k + 1) segment_end = ++segment * a.input_tiles / kSegments;
    };
    Record record;
    read_record(codes, scales, 0, record);
    for (int k = 0; k < a.input_tiles; k++) step(record, k);
  }
  wait_for_previous();
  __syncthreads();
  const int tokens = min(64, a.rows - row_tile * 8);
  if (SWIGLU) {
    const int first = blockIdx.y * (kRows / 2);
    for (int e = threadIdx.x; e < kRows / 4 * tokens; e += kThreads) {
      const int token = e / (kRows / 4), row = e % (kRows / 4) * 2;
      if (first + row >= a.matrix[0].rows) continue;
      const float* gate = totals + row * kTotalStride + token;
      const float* up = gate + kRows / 2 * kTotalStride;
      const u32 y = pack_bf16(silu(gate[0]) * up[0], silu(gate[kTotalStride]) * up[kTotalStride]);
      const int at = row_tile * 8 + token, in = first + row;
      *(u32*)(a.tiles + tile_index(at, in, a.tiles_rows)) = y;
    }
    return;
  }
  const MatrixArgs& matrix = a.matrix[m];
  const int row = threadIdx.x % kRows, own = ((int)blockIdx.y - matrix.first) * kRows + row;
  if (own >= matrix.rows) return;
  constexpr int kEach = 8, kTogether = kThreads / kRows;  // residuals are read a few at a time
  for (int first = threadIdx.x / kRows; first < tokens; first += kEach * kTogether) {
    float y[kEach];
#pragma unroll
    for (int i = 0; i < kEach; i++) {
      const int token = first + i * kTogether;
      y[i] = token < tokens && matrix.residual ? matrix.residual[(long)(row_tile * 8 + token) * matrix.rows + own] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < kEach; i++) {
      const int token = first + i * kTogether;
      if (token >= tokens) break;
      const float total = totals[row * kTotalStride + token];
      matrix.out[(long)(row_tile * 8 + token) * matrix.rows + own] = matrix.residual ? total + y[i] : total;
    }
  }
}

// Sums of x over each group, [input tile][GROUPS][8 * row_tiles], by the tensor cores as in gemv.cu. One warp
// for each tile.
KERNEL sums(const __grid_constant__ LinearArgs a) {
  wait_for_previous();
  let_next_start();
  const int lane = threadIdx.x % 32, tile = blockIdx.x * 8 + threadIdx.x / 32;
  if (DENSE || tile >= a.input_tiles * a.row_tiles) return;
  const u32* x = a.x + (long)tile * 256 + lane;
  const u32 ones[4] = {0x3F803F80u, 0x3F803F80u, 0x3F803F80u, 0x3F803F80u};
  constexpr int kSteps = 4 / GROUPS;
  for (int g = 0; g < GROUPS; g++) {
    float sum[4] = {};
    for (int j = g * kSteps; j < (g + 1) * kSteps; j++) mma_bf16(sum, ones, x[2 * j * 32], x[(2 * j + 1) * 32]);
    if (lane / 4 == 0)
      *(float2*)((float*)a.sums + ((long)(tile / a.row_tiles) * GROUPS + g) * a.row_tiles * 8 +
                 tile % a.row_tiles * 8 + lane * 2) = make_float2(sum[0], sum[1]);
  }
}
