// Attention for many query rows on Hopper's tensor cores (wgmma): the same sums in the same order as
// attention.cu, so the same bits. D is 64, 128 or 256. A block has 64 * WARPGROUPS query rows (positions
// times the heads of a group) and processes all parts that they see. One thread loads keys and values, which
// the warpgroups share; a warpgroup's scores, and its values so far, stay in registers.
constexpr int WARPGROUPS = kVariant.warpgroups;
constexpr int kConsumers = 128 * WARPGROUPS, kQueryRows = 64 * WARPGROUPS;
constexpr int kKeyDims = D < 128 ? D : 128;                      // dimensions of all keys in a stage
constexpr int kKeyStages = D / kKeyDims, kStagesOfPart = 2 * kKeyStages;  // for values: as many dimensions
constexpr int kStageBytes = kKeyDims * kPart * 2, kQueryBytes = kQueryRows * D * 2;
constexpr int kFit = (226 * 1024 - kQueryBytes) / kStageBytes, kStages = kFit < 6 ? kFit : 6;

static_assert(kQueryRows * kResultStride * 4 <= kStages * kStageBytes, "results fit");

#define OUT8(i)                                                                                \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
// d (+)= a b: 64 rows of a, 128 of b, 16 inputs; both are in shared memory.
DEVICE void wgmma_scores(float d[64], u64 a, u64 b, int add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
      "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
      "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
      "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63},"
      "%64, %65, p, 1, 1, 0, 0;\n}"
      : OUT8(0), OUT8(8), OUT8(16), OUT8(24), OUT8(32), OUT8(40), OUT8(48), OUT8(56)
      : "l"(a), "l"(b), "r"(add));
}
// The same with a in registers, and 64 rows of b.
DEVICE void wgmma_values(float d[32], const u32 a[4], u64 b, int add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
      "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31},"
      "{%32,%33,%34,%35}, %36, p, 1, 1, 0;\n}"
      : OUT8(0), OUT8(8), OUT8(16), OUT8(24)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));
}
// Descriptor of swizzled rows of 128 bytes: 8 rows are 1024 bytes.
DEVICE u64 turned_descriptor(u32 address) {
  return (u64)((address & 0x3FFFF) >> 4) | (u64)1 << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}

struct Block {
  const AttendSpan& s;
  int kv_head, group, first, rows, start, begin, end;  // first row of `rows`; position of the span's first; parts
  __device__ Block(const AttendArgs& a, const AttendSpan& span, int tile, int head)
      : s(span), kv_head(head), group(a.heads / a.kv_heads), first(tile * kQueryRows), rows(s.count * group),
        start(s.length - s.count) {
    begin = a.window > 0 ? max(0, start + first / group - a.window + 1) / kPart : 0;
    end = max(start + (min(first + kQueryRows, rows) - 1) / group, seen_by_all(s)) / kPart + 1;
  }
};

struct Stages {
  u8* memory;
  u64 *full, *empty;
  int stage = 0, phase = 0;
  __device__ u8* here() const { return memory + stage * kStageBytes; }
  __device__ void advance() {
    if (++stage == kStages) stage = 0, phase ^= 1;
  }
};

DEVICE void produce(const AttendArgs& a, const Block& b, Stages stages) {
  bool waited = false;
  for (int part = b.begin; part < b.end; part++) {
    if (!waited && (part + 1) * kPart > b.start) {
      wait_for_previous();
      waited = true;
    }
    const u8 *keys = part_address(a, b.s, b.kv_head, part, 0), *values = part_address(a, b.s, b.kv_head, part, 1);
    for (int i = 0; i < kStagesOfPart; i++) {
      u64* full = stages.full + stages.stage;
      barrier_wait(stages.empty + stages.stage, stages.phase ^ 1);
      barrier_expect(full, kStageBytes);
      if (i < kKeyStages) {
        copy_bulk(stages.here(), keys + i * kStageBytes, kStageBytes, full);
      } else {
        const u8* from = values + (i - kKeyStages) * (kStageBytes / 2);
        copy_bulk(stages.here(), from, kStageBytes / 2, full);
        copy_bulk(stages.here() + kStageBytes / 2, from + D * 128, kStageBytes / 2, full);
      }
      stages.advance();
    }
  }
}

DEVICE void release(Stages& stages) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) barrier_arrive(stages.empty + stages.stage);
  stages.advance();
}

DEVICE void bring_queries(const AttendArgs& a, const Block& b, u8* queries) {
  constexpr int kEach = kQueryRows * (D / 8) / kConsumers;  // loaded together, to wait for memory only once
  uint4 v[kEach];
#pragma unroll
  for (int i = 0; i < kEach; i++) {
    const int at = threadIdx.x + i * kConsumers, index = b.first + at / (D / 8);
    const long row = b.s.row + index / b.group, head = b.kv_head * b.group + index % b.group;
    v[i] = make_uint4(0, 0, 0, 0);
    if (index < b.rows) v[i] = *(const uint4*)(a.q16 + (row * a.heads + head) * D + at % (D / 8) * 8);
  }
#pragma unroll
  for (int i = 0; i < kEach; i++) {
    const int at = threadIdx.x + i * kConsumers, row = at / (D / 8), d = at % (D / 8) * 8;
    *(uint4*)(queries + (d / 64 * kQueryRows * 64 + swizzled<64>(row, d % 64)) * 2) = v[i];
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  barrier_sync(1, kConsumers);
}

// Computes the weights of the warp's rows r (half 0) and r + 8 (1) as fragments of 16 positions each.
DEVICE void weigh(const AttendArgs& a, const Block& b, int part, const int own[2], float scores[64], u32 weights[8][4],
                  float largest[2], float sum[2]) {
  const int by_all = seen_by_all(b.s);
  if (!plain_part(a, part, b.start + b.first / b.group, b.start + (b.first + kQueryRows - 1) / b.group, by_all))
    see<16>(a, scores, part * kPart, own, by_all);
  const float factor = score_factor(a);
#pragma unroll
  for (int h = 0; h < 2; h++) {
    float m = nothing();
#pragma unroll
    for (int n = 0; n < 16; n++) m = fmaxf(m, fmaxf(scores[n * 4 + 2 * h], scores[n * 4 + 2 * h + 1]));
    m = fmaxf(m, __shfl_xor_sync(~0u, m, 1));
    m = fmaxf(m, __shfl_xor_sync(~0u, m, 2));
    largest[h] = factor * m;
    m = largest[h] == nothing() ? 0.0f : largest[h];
    float quarter[4] = {};  // 32 positions each
#pragma unroll
    for (int n = 0; n < 16; n++) {
      const float p0 = weight_of(scores[n * 4 + 2 * h], factor, m);
      const float p1 = weight_of(scores[n * 4 + 2 * h + 1], factor, m);
      quarter[n / 4] += p0 + p1;
      weights[n / 2][n % 2 * 2 + h] = pack_f16(p0, p1);
    }
    sum[h] = (quarter[0] + quarter[1]) + (quarter[2] + quarter[3]);
    sum[h] += __shfl_xor_sync(~0u, sum[h], 1);
    sum[h] += __shfl_xor_sync(~0u, sum[h], 2);
  }
}

DEVICE void join_values(const Joint j[2], const bool kept, float running[32], const float mixed[32]) {
  if (kept) {
#pragma unroll
    for (int i = 0; i < 32; i++) running[i] = __fmaf_rn(mixed[i], j[i % 4 / 2].add, running[i]);
  } else {
#pragma unroll
    for (int i = 0; i < 32; i++) running[i] = joined(j[i % 4 / 2], running[i], mixed[i]);
  }
}

DEVICE void consume(const AttendArgs& a, const Block& b, u8* queries, Stages stages) {
  wait_for_previous();
  bring_queries(a, b, queries);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, r = lane / 4, q = lane % 4;
  const int row = b.first + warp * 16 + r;
  const int own[2] = {row < b.rows ? b.start + row / b.group : -1,
                      row + 8 < b.rows ? b.start + (row + 8) / b.group : -1};
  const u64 query = turned_descriptor(shared_address(queries) + warp / 4 * 64 * 128);
  const u64 memory = turned_descriptor(shared_address(stages.memory));
  float running[D / 64][32], running_largest[2] = {nothing(), nothing()}, running_sum[2] = {0.0f, 0.0f};
#pragma unroll
  for (int g = 0; g < D / 64; g++)
#pragma unroll
    for (int i = 0; i < 32; i++) running[g][i] = 0.0f;
  for (int part = b.begin; part < b.end; part++) {
    u32 weights[8][4];
    Joint j[2];
    bool kept;
    {
      float scores[64], largest[2], sum[2];
      Stages keys = stages;
#pragma unroll
      for (int c = 0; c < kKeyStages; c++) {
        barrier_wait(keys.full + keys.stage, keys.phase);
        const u64 key = memory + keys.stage * (kStageBytes / 16);
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < kKeyDims / 16; k++) {
          const int tile = (c * kKeyDims + k * 16) / 64;
          wgmma_scores(scores, query + tile * (kQueryRows * 128 / 16) + k % 4 * 2,
                       key + k / 4 * (kPart * 128 / 16) + k % 4 * 2, c > 0 || k > 0);
        }
        wgmma_commit();
        keys.advance();
      }
      wgmma_wait<0>();
#pragma unroll
      for (int i = 0; i < 64; i++) asm volatile("" : "+f"(scores[i])::"memory");
#pragma unroll
      for (int c = 0; c < kKeyStages; c++) release(stages);
      weigh(a, b, part, own, scores, weights, largest, sum);
#pragma unroll
      for (int h = 0; h < 2; h++) {
        j[h] = {1.0f, 0.0f};
        if (largest[h] == nothing()) continue;
        j[h] = join(running_largest[h], largest[h]);
        running_sum[h] = joined(j[h], running_sum[h], sum[h]);
      }
      kept = !__any_sync(~0u, j[0].keep != 1.0f || j[1].keep != 1.0f);
    }
    // The products of 64 dimensions run while the previous ones are joined.
    constexpr int kOfStage = kKeyDims / 64;
    float mixed[2][32];
    const auto finish = [&](int g) {
#pragma unroll
      for (int i = 0; i < 32; i++) asm volatile("" : "+f"(mixed[g % 2][i])::"memory");
      if (g % kOfStage == kOfStage - 1) release(stages);
      join_values(j, kept, running[g], mixed[g % 2]);
    };
    Stages values = stages;
#pragma unroll
    for (int g = 0; g < D / 64; g++) {
      if (g % kOfStage == 0) {
        if (g > 0) values.advance();
        barrier_wait(values.full + values.stage, values.phase);
      }
      const u64 value = memory + values.stage * (kStageBytes / 16) + g % kOfStage * (64 * 128 / 16);
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < 8; k++)
        wgmma_values(mixed[g % 2], weights[k], value + k / 4 * (kStageBytes / 32) + k % 4 * 2, k > 0);
      wgmma_commit();
      if (g == 0) continue;
      wgmma_wait<1>();
      finish(g - 1);
    }
    wgmma_wait<0>();
    finish(D / 64 - 1);
    // The products read the weights until here, which the compiler does not know.
#pragma unroll
    for (int k = 0; k < 8; k++)
      asm volatile("" ::"r"(weights[k][0]), "r"(weights[k][1]), "r"(weights[k][2]), "r"(weights[k][3]));
  }
  // Store through shared memory, where keys and values are no longer in use: loading the code that stores
  // from fragments took longer than running it.
  barrier_sync(1, kConsumers);
  float* results = (float*)stages.memory + warp * 16 * kResultStride;
#pragma unroll
  for (int h = 0; h < 2; h++) {
    const int head = b.kv_head * b.group + (b.first + warp * 16 + r + 8 * h) % b.group;
    const float factor = 1.0f / sum_with_sink(a, head, running_largest[h], running_sum[h]);
#pragma unroll
    for (int i = 0; i < D / 8; i++)
      *(float2*)(results + (r + 8 * h) * kResultStride + i * 8 + 2 * q) =
          make_float2(running[i / 8][i % 8 * 4 + 2 * h] * factor, running[i / 8][i % 8 * 4 + 2 * h + 1] * factor);
  }
  __syncwarp();
#pragma unroll 1
  for (int i = 0; i < 16 && b.first + warp * 16 + i < b.rows; i++) {
    const int index = b.first + warp * 16 + i;
    store_row(a, b.s.row + index / b.group, b.kv_head * b.group + index % b.group, results + i * kResultStride);
  }
}

// Grid: tiles of query rows by kv heads; tiles with the most parts come first.
KERNEL __launch_bounds__(kConsumers + 128, 1) attend_many(const __grid_constant__ AttendArgs a) {
  extern __shared__ __align__(1024) u8 shared[];
  u64* full = (u64*)(shared + kQueryBytes + kStages * kStageBytes);
  const Stages stages{shared + kQueryBytes, full, full + kStages};
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; i++) {
      barrier_init(full + i, 1);
      barrier_init(full + kStages + i, kConsumers / 32);
    }
    barriers_ready();
  }
  __syncthreads();
  let_next_start();
  const int index = (gridDim.x - 1 - blockIdx.x) / a.kv_heads;
  const AttendSpan& s = find_span(a, &AttendSpan::first_unit, index);
  const Block b(a, s, index - s.first_unit, blockIdx.x % a.kv_heads);
  if (threadIdx.x >= kConsumers) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x == kConsumers) produce(a, b, stages);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(WARPGROUPS == 1 ? 248 : 240));
    consume(a, b, shared, stages);
  }
}
