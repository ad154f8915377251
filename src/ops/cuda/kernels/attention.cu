// Attention over paged keys and values for few query rows: norms, rotation and the cache, then parts of positions, each
// with 16 query rows, then their joining. Macros: D; STAGES of a ring in shared memory, which change no result.
DEVICE float in_f16_range(float x) { return fminf(fmaxf(x, -65504.0f), 65504.0f); }

// A row's head of queries, keys or values after norm and rotation: by a warp, with `all` in shared memory.
enum Kind { kQuery, kKey, kValue };
DEVICE void prepare_head(const AttendArgs& a, Kind kind, int row, int head, int position, float all[D], float y[D / 32]) {
  const int lane = threadIdx.x % 32;
  const bool is_q = kind == kQuery;
  const float* from = is_q ? a.q : kind == kKey ? a.k : a.v;
  const float* x = from + ((long)row * (is_q ? a.heads : a.kv_heads) + head) * D;
#pragma unroll
  for (int i = 0; i < D / 32; i++) y[i] = x[i * 32 + lane];
  const float* norm = kind == kValue ? nullptr : is_q ? a.q_norm : a.k_norm;
  if (norm) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < D / 32; i++) sum += y[i] * y[i];
    const float factor = 1.0f / sqrtf(warp_sum(sum) / D + (is_q ? a.q_eps : a.k_eps));
#pragma unroll
    for (int i = 0; i < D / 32; i++) y[i] *= factor * norm[i * 32 + lane];
  }
  if (kind == kValue || !a.inv_freq) return;
#pragma unroll
  for (int i = 0; i < D / 32; i++) all[i * 32 + lane] = y[i];
  __syncwarp();
  const int own = a.positions ? a.positions[row] : position;
  const double at = own;
  const float* frequencies = a.far_from > 0 && own >= a.far_from ? a.far_inv_freq : a.inv_freq;
  float factor = a.attention_factor;
  if (is_q && a.query_beta != 0.0f) factor *= 1.0f + a.query_beta * logf(1.0f + (float)(own / a.query_period));
  for (int i = lane; i < a.pairs_turned; i += 32) {
    double sine, cosine;
    sincos(at * (double)frequencies[i], &sine, &cosine);
    const float c = (float)cosine * factor, sn = (float)sine * factor;
    const float x1 = all[i], x2 = all[i + a.pairs_turned];
    all[i] = x1 * c - x2 * sn;
    all[i + a.pairs_turned] = x2 * c + x1 * sn;
  }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < D / 32; i++) y[i] = all[i * 32 + lane];
  __syncwarp();
}
DEVICE u16 kept(float y) { return to_f16(in_f16_range(y)); }
// A row's keys or values of a head go to the cache.
DEVICE void cache_head(const AttendArgs& a, const AttendSpan& s, Kind kind, int head, int position, const float y[D / 32]) {
  u16* block = (u16*)block_address(a, s.first_pair + position / kBlock, kind == kValue);
  const int column = position % kBlock, lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < D / 32; i++) {
    const int d = i * 32 + lane;
    block[kind == kValue ? value_place(head, column, d) : key_place(head, column, d)] = kept(y[i]);
  }
}

// Grid: a warp for each row and head.
KERNEL prepare(const __grid_constant__ AttendArgs a) {
  __shared__ float shared[8][D];
  wait_for_previous();
  let_next_start();
  const int q_heads = a.q ? a.heads : 0, units = q_heads + (a.k ? 2 * a.kv_heads : 0), lane = threadIdx.x % 32;
  const int unit = blockIdx.x * 8 + threadIdx.x / 32, row = a.first_row + unit / units, head = unit % units;
  if (unit / units >= a.rows) return;
  const AttendSpan& s = find_span(a, &AttendSpan::row, row);
  const int position = s.length - s.count + row - s.row;
  const Kind kind = head < q_heads ? kQuery : head < q_heads + a.kv_heads ? kKey : kValue;
  const int h = kind == kQuery ? head : (head - q_heads) % a.kv_heads;
  float y[D / 32];
  prepare_head(a, kind, row, h, position, shared[threadIdx.x / 32], y);
  if (kind != kQuery) return cache_head(a, s, kind, h, position, y);
  const long to = ((long)row * a.heads + h) * D;
#pragma unroll
  for (int i = 0; i < D / 32; i++) {
    if (a.q_out) a.q_out[to + i * 32 + lane] = y[i];
    if (a.q16) a.q16[to + i * 32 + lane] = kept(y[i]);
  }
}

// A part's keys, then its values, in chunks that one copy brings: kWide dimensions of all keys, or 64 positions of
// kRows dimensions of the values.
constexpr int kRows = D % 128 == 0 ? 128 : D % 96 == 0 ? 96 : D % 64 == 0 ? 64 : 32, kRowGroups = D / kRows;
constexpr int kKeyChunks = D / kWide, kValueChunks = 2 * kRowGroups, kChunks = kKeyChunks + kValueChunks;
constexpr int kKeyBytes = kPartBytes / kKeyChunks, kValueBytes = kPartBytes / kValueChunks;
constexpr int kStages = STAGES, kStageBytes = kKeyBytes > kValueBytes ? kKeyBytes : kValueBytes;

// What a group of 128 threads has in shared memory.
struct Group {
  u8 ring[kStages][kStageBytes];
  u16 queries[16 * D];
  union {
    u16 weights[2][16 * 64];
    float heads[4][D];  // before there are weights
  };
  float largest[4][16], sum[4][16][4];
  u64 full[kStages], is_last;
};

static_assert(sizeof(Group) == kStages * (kStageBytes + 8) + 32 * D + (D > 256 ? 16 * D : 4096) + 1288, "attention.cc has this");

// The ring through which chunks come. Threads use it together; `barrier` is theirs.
struct Ring {
  Group& group;
  int thread, barrier;
  int stage = 0, phase = 0;  // of the next chunk to use

  __device__ void start() {
#if __CUDA_ARCH__ >= 900
    if (thread == 0) {
      for (int i = 0; i < kStages; i++) barrier_init(group.full + i, 1);
      barriers_ready();
    }
    barrier_sync(barrier, 128);
#endif
  }
};

// The chunks of parts [begin, begin + total / kChunks) of a head.
struct Chunks {
  const AttendArgs& a;
  const AttendSpan& s;
  Ring& ring;
  int kv_head, begin, total;
  int asked = 0;
  const u8 *keys = nullptr, *values = nullptr;  // of the part that is asked for

  // Asks for the next chunk, in the stage `ahead` of the one that is used next.
  __device__ void ask(int ahead) {
    if (asked < total) {
      const int c = asked % kChunks, part = begin + asked / kChunks;
      int stage = ring.stage + ahead;
      if (stage >= kStages) stage -= kStages;
      u8* to = ring.group.ring[stage];
#if __CUDA_ARCH__ >= 900
      if (ring.thread == 0) {
        if (c == 0) keys = part_address(a, s, kv_head, part, 0), values = part_address(a, s, kv_head, part, 1);
        const bool of_keys = c < kKeyChunks;
        const int bytes = of_keys ? kKeyBytes : kValueBytes;
        barrier_expect(ring.group.full + stage, bytes);
        const u8* from = of_keys ? keys + c * kKeyBytes : values + (c - kKeyChunks) * kValueBytes;
        copy_bulk_once(to, from, bytes, ring.group.full + stage);
      }
#else
      if (c == 0) keys = part_address(a, s, kv_head, part, 0), values = part_address(a, s, kv_head, part, 1);
      const bool of_keys = c < kKeyChunks;
      const u8* from = of_keys ? keys + c * kKeyBytes : values + (c - kKeyChunks) * kValueBytes;
      for (int i = ring.thread * 16; i < (of_keys ? kKeyBytes : kValueBytes); i += 128 * 16)
        copy16_async(shared_address(to) + i, from + i, true);
#endif
      asked++;
    }
#if __CUDA_ARCH__ < 900
    commit_copies();
#endif
  }
  // Waits for the next chunk. All threads have done with the one before it, whose stage is filled again.
  __device__ const u8* next() {
    const u8* chunk = ring.group.ring[ring.stage];
#if __CUDA_ARCH__ >= 900
    barrier_wait(ring.group.full + ring.stage, ring.phase);
#else
    wait_copies<kStages - 2>();
#endif
    barrier_sync(ring.barrier, 128);
    ask(kStages - 1);
    if (++ring.stage == kStages) ring.stage = 0, ring.phase ^= 1;
    return chunk;
  }
};

// 16 query rows: positions of a span by the heads of a group.
struct Tile {
  int first, rows, group, start;  // first row of `rows`; position of the span's first
  __device__ Tile(const AttendArgs& a, const AttendSpan& s, int index)
      : first(index * 16), rows(s.count * (a.heads / a.kv_heads)), group(a.heads / a.kv_heads), start(s.length - s.count) {}
  __device__ int position(int row) const { return first + row < rows ? start + (first + row) / group : -1; }
  __device__ int last() const { return start + (min(first + 16, rows) - 1) / group; }
};

// Weighted values of 16 rows and a part: of a warp's share of the dimensions.
typedef float Mixed[kRowGroups][kRows / 32][4];

// Scores of 16 rows and the warp's 32 keys of a part.
DEVICE void score_keys(Chunks& chunks, const Group& group, float scores[4][4]) {
  const int lane = threadIdx.x % 32, warp = chunks.ring.thread / 32;
  const int row_of_queries = lane % 16, half = lane / 16;
#pragma unroll
  for (int c = 0; c < kKeyChunks; c++) {
    const u32 chunk = shared_address(chunks.next()), queries = shared_address(group.queries + c * 16 * kWide);
#pragma unroll
    for (int k = 0; k < kWide; k += 32) {
      u32 a[2][4];
#pragma unroll
      for (int j = 0; j < 2; j++)
        load_matrices(queries + swizzled<kWide>(row_of_queries, k + j * 16 + half * 8) * 2, a[j]);
#pragma unroll
      for (int n = 0; n < 4; n++) {
        u32 b[4];
        load_matrices(chunk + swizzled<kWide>(warp * 32 + n * 8 + lane % 8, k + lane / 8 * 8) * 2, b);
        mma_f16(scores[n], a[0], b[0], b[1]);
        mma_f16(scores[n], a[1], b[2], b[3]);
      }
    }
  }
}

// Turns scores into weights, which go to shared memory with the warp's sums. largest: of rows r, r + 8.
DEVICE void weigh(const AttendArgs& a, Group& group, const Ring& ring, const Tile& tile, int part, float scores[4][4],
                  float largest[2]) {
  const int lane = threadIdx.x % 32, warp = ring.thread / 32, r = lane / 4, q = lane % 4;
  if (!plain_part(a, part, tile.start + tile.first / tile.group, tile.last())) {
#pragma unroll
    for (int n = 0; n < 4; n++)
#pragma unroll
      for (int i = 0; i < 4; i++)
        scores[n][i] = seen_score(a, scores[n][i], part * kPart + warp * 32 + n * 8 + 2 * q + i % 2,
                                  tile.position(r + i / 2 * 8));
  }
  const float factor = score_factor(a);
#pragma unroll
  for (int i = 0; i < 2; i++) {
    float m = nothing();
#pragma unroll
    for (int n = 0; n < 4; n++) m = fmaxf(m, fmaxf(scores[n][2 * i], scores[n][2 * i + 1]));
    m = fmaxf(m, __shfl_xor_sync(~0u, m, 1));
    m = fmaxf(m, __shfl_xor_sync(~0u, m, 2));
    if (q == 0) group.largest[warp][r + 8 * i] = m;
  }
  barrier_sync(ring.barrier, 128);
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const int row = r + 8 * i;
    largest[i] = factor * fmaxf(fmaxf(group.largest[0][row], group.largest[1][row]),
                                fmaxf(group.largest[2][row], group.largest[3][row]));
    const float m = largest[i] == nothing() ? 0.0f : largest[i];
    float sum = 0.0f;
#pragma unroll
    for (int n = 0; n < 4; n++) {
      const float p0 = weight_of(scores[n][2 * i], factor, m), p1 = weight_of(scores[n][2 * i + 1], factor, m);
      sum += p0 + p1;
      *(u32*)(group.weights[warp / 2] + swizzled<64>(row, warp % 2 * 32 + n * 8 + 2 * q)) = pack_f16(p0, p1);
    }
    group.sum[warp][row][q] = sum;
  }
}

DEVICE void mix_values(Chunks& chunks, const Group& group, Mixed mixed) {
  const int lane = threadIdx.x % 32, warp = chunks.ring.thread / 32;
#pragma unroll
  for (int c = 0; c < kValueChunks; c++) {
    const u32 chunk = shared_address(chunks.next()), weights = shared_address(group.weights[c / kRowGroups]);
#pragma unroll
    for (int k = 0; k < 64; k += 32) {
      u32 a[2][4];
#pragma unroll
      for (int j = 0; j < 2; j++)
        load_matrices(weights + swizzled<64>(lane % 16, k + j * 16 + lane / 16 * 8) * 2, a[j]);
#pragma unroll
      for (int n = 0; n < kRows / 32; n++) {
        u32 b[4];
        load_matrices(chunk + swizzled<64>(warp * (kRows / 4) + n * 8 + lane % 8, k + lane / 8 * 8) * 2, b);
        mma_f16(mixed[c % kRowGroups][n], a[0], b[0], b[1]);
        mma_f16(mixed[c % kRowGroups][n], a[1], b[2], b[3]);
      }
    }
  }
}
// The sums of a row's weights, which all lanes of the row get.
DEVICE float sum_of(const Group& group, int row, int q) {
  float sum = (group.sum[0][row][q] + group.sum[1][row][q]) + (group.sum[2][row][q] + group.sum[3][row][q]);
  sum += __shfl_xor_sync(~0u, sum, 1);
  return sum + __shfl_xor_sync(~0u, sum, 2);
}

DEVICE u16* query_place(Group& group, int row, int d) {
  return group.queries + d / kWide * 16 * kWide + swizzled<kWide>(row, d % kWide);
}
DEVICE void bring_queries(const AttendArgs& a, const AttendSpan& s, const Tile& tile, int kv_head, Group& group, int thread) {
  for (int i = thread; i < 16 * (D / 8); i += 128) {
    const int row = i / (D / 8), d = i % (D / 8) * 8, index = tile.first + row;
    uint4 v = make_uint4(0, 0, 0, 0);
    if (index < tile.rows) {
      const long at = (long)(s.row + index / tile.group) * a.heads + kv_head * tile.group + index % tile.group;
      v = *(const uint4*)(a.q16 + at * D + d);
    }
    *(uint4*)query_place(group, row, d) = v;
  }
}
// Without prepare(): the tile's queries, and those of the span's keys and values that lie in parts [begin, end).
DEVICE void prepare_tile(const AttendArgs& a, const AttendSpan& s, const Tile& tile, int kv_head, int begin, int end,
                         Group& group, int thread, int barrier) {
  const int warp = thread / 32, lane = thread % 32;
  const int first = max(tile.start, begin * kPart), fresh = max(min(s.length, end * kPart) - first, 0);
  for (int i = warp; i < 16 + 2 * fresh; i += 4) {
    const int index = tile.first + i;
    float y[D / 32] = {};
    if (i >= 16) {
      const Kind kind = i % 2 ? kValue : kKey;
      const int position = first + (i - 16) / 2;
      prepare_head(a, kind, s.row + position - tile.start, kv_head, position, group.heads[warp], y);
      cache_head(a, s, kind, kv_head, position, y);
      continue;
    }
    if (index < tile.rows)
      prepare_head(a, kQuery, s.row + index / tile.group, kv_head * tile.group + index % tile.group, tile.position(i),
                   group.heads[warp], y);
#pragma unroll
    for (int d = 0; d < D / 32; d++) *query_place(group, i, d * 32 + lane) = kept(y[d]);
  }
#if __CUDA_ARCH__ >= 900
  other_proxy_fence();
#endif
  barrier_sync(barrier, 128);
}

// Where a row's results of a part lie in a.sums and a.largest.
DEVICE long slot_of(const AttendArgs& a, const AttendSpan& s, int tile, int part, int kv_head, int row) {
  const int parts = (s.length - 1) / kPart + 1 - s.begin;
  return ((long)(s.first_slot + tile * parts + part - s.begin) * a.kv_heads + kv_head) * a.slot_rows + row;
}

// Joining by the block that ends a tile last, where parts are few.
struct PartJoint {
  float keep, add, sum, unused;
};
__device__ u32 arrived[kMostJoins];  // 0 between launches

// Whether all other units of the tile have left their parts.
DEVICE bool arrives_last(u32* counter, int units, Group& group, int thread, int barrier) {
  __threadfence();
  barrier_sync(barrier, 128);
  if (thread == 0) {
    group.is_last = atomicAdd(counter, 1u) == units - 1;
    if (group.is_last) *counter = 0;
    __threadfence();
  }
  barrier_sync(barrier, 128);
  return group.is_last;
}

// keep and add of a row's parts, `stride` apart: by a warp.
DEVICE void weigh_row(const float2* parts, PartJoint* joints, int stride, int count) {
  const int lane = threadIdx.x % 32;
  float largest = nothing();
  for (int p = lane; p - lane < count; p += 32) {
    const float2 own = p < count ? parts[p * stride] : make_float2(nothing(), 0.0f);
    float upto = own.x;
#pragma unroll
    for (int i = 1; i < 32; i *= 2) {
      const float left = __shfl_sync(~0u, upto, lane - i);
      if (lane >= i) upto = fmaxf(upto, left);
    }
    const float left = __shfl_sync(~0u, upto, lane - 1);
    float before = lane > 0 ? fmaxf(largest, left) : largest;
    largest = fmaxf(largest, __shfl_sync(~0u, upto, 31));
    Joint j = {1.0f, 0.0f};
    if (before != nothing() || own.x != nothing()) j = join(before, own.x);
    if (p < count) joints[p * stride] = {j.keep, j.add, own.y, 0.0f};
  }
}

DEVICE void join_tile(const AttendArgs& a, const AttendSpan& s, const Tile& tile, int index, int kv_head, int begin, int count,
                      Ring& ring) {
  const int thread = ring.thread, rows = a.slot_rows, part_floats = rows * D;
  const long first_slot = slot_of(a, s, index, begin, kv_head, 0), next = a.kv_heads * rows;
  PartJoint* joints = (PartJoint*)ring.group.ring;  // [count][rows]
  float2* largest = (float2*)(joints + count * rows);
  float* values = (float*)(largest + count * rows);  // of parts that are brought together
  const int together = (int)((sizeof(ring.group.ring) - count * rows * 24) / (part_floats * 4));
  for (int i = thread; i < count * rows; i += 128)
    copy8_async(shared_address(largest + i), a.largest + (first_slot + i / rows * next + i % rows) * 2, true);
  commit_copies();
  float mixed[D / 32][4] = {}, sum[D / 32] = {};
  for (int first = 0; first < count; first += together) {
    const int here = min(together, count - first);
    for (int i = thread * 4; i < here * part_floats; i += 512)
      copy16_async(shared_address(values + i), a.sums + (first_slot + (first + i / part_floats) * next) * D + i % part_floats,
                   true);
    commit_copies();
    if (first == 0) {
      wait_copies<1>();
      barrier_sync(ring.barrier, 128);
      for (int row = thread / 32; row < rows; row += 4) weigh_row(largest + row, joints + row, rows, count);
    }
    wait_copies<0>();
    barrier_sync(ring.barrier, 128);
    for (int p = 0; p < here; p++) {
#pragma unroll
      for (int k = 0; k < D / 32; k++) {
        const int i = k * 512 + thread * 4;
        if (i >= part_floats) continue;
        const float4 of = *(const float4*)(joints + (first + p) * rows + i / D);
        const float4 v = *(const float4*)(values + p * part_floats + i);
        const Joint j = {of.x, of.y};
        sum[k] = joined(j, sum[k], of.z);
        mixed[k][0] = joined(j, mixed[k][0], v.x), mixed[k][1] = joined(j, mixed[k][1], v.y);
        mixed[k][2] = joined(j, mixed[k][2], v.z), mixed[k][3] = joined(j, mixed[k][3], v.w);
      }
    }
    barrier_sync(ring.barrier, 128);
  }
#pragma unroll
  for (int k = 0; k < D / 32; k++) {
    const int i = k * 512 + thread * 4, row = tile.first + i / D;
    if (i >= part_floats || row >= tile.rows) continue;
    const int at = s.row + row / tile.group, head = kv_head * tile.group + row % tile.group;
    store(a, at, head, i % D, mixed[k][0] / sum[k], mixed[k][1] / sum[k]);
    store(a, at, head, i % D + 2, mixed[k][2] / sum[k], mixed[k][3] / sum[k]);
  }
}

// One unit of work: a tile of 16 query rows, a head of keys, and up to unit_parts parts. If these are all parts, the
// result is stored, else each part's.
DEVICE void attend_unit(const AttendArgs& a, int unit, int kv_head, Ring& ring) {
  const AttendSpan& s = find_span(a, &AttendSpan::first_unit, unit);
  const int index = (unit - s.first_unit) / s.splits, split = (unit - s.first_unit) % s.splits;
  const Tile tile(a, s, index);
  const int parts = (s.length - 1) / kPart + 1 - s.begin;
  const int first_seen = a.window > 0 ? max(0, tile.start + tile.first / tile.group - a.window + 1) / kPart : 0;
  const int begin = max(first_seen, s.begin + split * s.unit_parts);
  const int end = min(tile.last() / kPart, s.begin + min((split + 1) * s.unit_parts, parts) - 1) + 1;
  Group& group = ring.group;
  Chunks chunks{a, s, ring, kv_head, begin, max(end - begin, 0) * kChunks};
  // What the kernels before do not write.
  const int old = (tile.start / kPart - begin) * kChunks;
  int ahead = 0;
  const auto ask_old = [&] {
    for (; ahead < kStages - 1 && ahead < old; ahead++) chunks.ask(ahead);
  };
  if (!a.prepares) {  // prepare() began when all before it had ended
    ask_old();
  } else if (begin < end) {  // into the L2 cache, which sees what is written later
#if __CUDA_ARCH__ >= 900
    if (ring.thread < 2) prefetch_bulk(part_address(a, s, kv_head, begin, ring.thread), kPartBytes);
#endif
  }
  wait_for_previous();
  let_next_start();
  ask_old();
  if (a.prepares)
    prepare_tile(a, s, tile, kv_head, begin, end, group, ring.thread, ring.barrier);
  else
    bring_queries(a, s, tile, kv_head, group, ring.thread);
  for (; ahead < kStages - 1; ahead++) chunks.ask(ahead);

  const int lane = threadIdx.x % 32, warp = ring.thread / 32, r = lane / 4, q = lane % 4;
  Mixed running = {};
  float running_largest[2] = {nothing(), nothing()}, running_sum[2] = {0.0f, 0.0f};
  for (int part = begin; part < end; part++) {
    float scores[4][4] = {}, largest[2];
    Mixed mixed = {};
    score_keys(chunks, group, scores);
    weigh(a, group, ring, tile, part, scores, largest);
    mix_values(chunks, group, mixed);
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const float sum = sum_of(group, r + 8 * i, q);
      if (s.splits > 1) {
        if (tile.position(r + 8 * i) < 0) continue;
        const long slot = slot_of(a, s, index, part, kv_head, r + 8 * i);
        if (warp == 0 && q == 0) *(float2*)(a.largest + slot * 2) = make_float2(largest[i], sum);
#pragma unroll
        for (int g = 0; g < kRowGroups; g++)
#pragma unroll
          for (int n = 0; n < kRows / 32; n++)
            *(float2*)(a.sums + slot * D + g * kRows + warp * (kRows / 4) + n * 8 + 2 * q) =
                make_float2(mixed[g][n][2 * i], mixed[g][n][2 * i + 1]);
      } else if (largest[i] != nothing()) {
        const Joint j = join(running_largest[i], largest[i]);
        running_sum[i] = joined(j, running_sum[i], sum);
#pragma unroll
        for (int g = 0; g < kRowGroups; g++)
#pragma unroll
          for (int n = 0; n < kRows / 32; n++)
#pragma unroll
            for (int e = 2 * i; e < 2 * i + 2; e++) running[g][n][e] = joined(j, running[g][n][e], mixed[g][n][e]);
      }
    }
  }
  if (s.splits > 1) {
    if (!a.joins || !arrives_last(arrived + (unit - split) * a.kv_heads + kv_head, s.splits, group, ring.thread, ring.barrier))
      return;
    const int from = max(first_seen, s.begin);
    return join_tile(a, s, tile, index, kv_head, from, tile.last() / kPart + 1 - from, ring);
  }
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const int row = tile.first + r + 8 * i;
    if (row >= tile.rows) continue;
#pragma unroll
    for (int g = 0; g < kRowGroups; g++)
#pragma unroll
      for (int n = 0; n < kRows / 32; n++)
        store(a, s.row + row / tile.group, kv_head * tile.group + row % tile.group,
              g * kRows + warp * (kRows / 4) + n * 8 + 2 * q, running[g][n][2 * i] / running_sum[i],
              running[g][n][2 * i + 1] / running_sum[i]);
  }
}

// Grid: units by kv heads.
KERNEL __launch_bounds__(128) attend(const __grid_constant__ AttendArgs a) {
  extern __shared__ __align__(1024) u8 shared[];
  Ring ring{*(Group*)shared, (int)threadIdx.x, 1};
  ring.start();
  attend_unit(a, blockIdx.x / a.kv_heads, blockIdx.x % a.kv_heads, ring);
}

// Joining: a group of 128 threads has 32 dimensions of a query row and head. It brings parts into shared memory,
// kTogether at a time and a.joined_ahead times so many ahead; a warp joins them in order. What a part adds is known
// before: the largest score up to it does not depend on the order.
constexpr int kRound = 1024, kTogether = 64;
struct Joining {
  float warp_largest[4], sum, unused[3];
  PartJoint joints[kRound];  // memory is there for as many as there are parts
};

// The joints of `count` parts (at most kRound), whose largest scores and sums lie `next` apart: a thread has 8.
DEVICE void weigh_parts(Joining& to, const float2* of, long next, int count, float& largest, int thread, int barrier) {
  const int lane = thread % 32, warp = thread / 32;
  float2 own[8];
  float upto = nothing();
#pragma unroll
  for (int i = 0; i < 8; i++) {
    own[i] = thread * 8 + i < count ? of[(thread * 8 + i) * next] : make_float2(nothing(), 0.0f);
    upto = fmaxf(upto, own[i].x);
  }
#pragma unroll
  for (int i = 1; i < 32; i *= 2) {
    const float left = __shfl_sync(~0u, upto, lane - i);
    if (lane >= i) upto = fmaxf(upto, left);
  }
  barrier_sync(barrier, 128);  // the round before has ended
  if (lane == 31) to.warp_largest[warp] = upto;
  barrier_sync(barrier, 128);
  float before = largest;
  const float left = __shfl_sync(~0u, upto, lane - 1);
  if (lane > 0) before = fmaxf(before, left);
  for (int w = 0; w < 4; w++) {
    if (w < warp) before = fmaxf(before, to.warp_largest[w]);
    largest = fmaxf(largest, to.warp_largest[w]);
  }
#pragma unroll
  for (int i = 0; i < 8; i++) {
    if (thread * 8 + i >= count) continue;
    const Joint j = join(before, own[i].x);
    to.joints[thread * 8 + i] = {j.keep, j.add, own[i].y, 0.0f};
  }
}

// Joins `count` parts to `total`: numbers of(part). If all that was there before is kept as it is, products with 1 are
// left out.
template <bool KEPT, class Of>
DEVICE void join_parts(const PartJoint* joints, int count, float& total, const Of& of) {
  const auto one = [&](int i) {
    const float2 keep_add = *(const float2*)(joints + i);
    const Joint j = {keep_add.x, keep_add.y};
    total = KEPT ? __fmaf_rn(of(i), j.add, total) : joined(j, total, of(i));
  };
  if (count == kTogether) {
#pragma unroll
    for (int i = 0; i < kTogether; i++) one(i);
  } else {
    for (int i = 0; i < count; i++) one(i);
  }
}

template <class Of>
DEVICE void join_parts(bool kept, const PartJoint* joints, int count, float& total, const Of& of) {
  if (kept)
    join_parts<true>(joints, count, total, of);
  else
    join_parts<false>(joints, count, total, of);
}

DEVICE void combine_unit(const AttendArgs& a, int row, int head, int d, u8* shared, int thread, int barrier) {
  const AttendSpan& s = find_span(a, &AttendSpan::row, row);
  if (s.splits <= 1 || row >= s.row + s.count) return;
  const int group = a.heads / a.kv_heads, index = (row - s.row) * group + head % group, lane = thread % 32;
  const int position = s.length - s.count + row - s.row;
  const int begin = a.window > 0 ? max(0, position - a.window + 1) / kPart : 0, count = position / kPart + 1 - begin;
  const long slot = slot_of(a, s, index / 16, begin, head / group, index % 16), next = a.kv_heads * a.slot_rows;
  float(*ring)[kTogether][32] = (float(*)[kTogether][32])shared;
  Joining& joining = *(Joining*)(ring + a.joined_ahead);
  const float* from = a.sums + (slot + thread / 8 * next) * D + d + thread % 8 * 4;
  int asked = thread / 8;
  const auto ask = [&](int stage) {
#pragma unroll
    for (int i = 0; i < kTogether; i += 16) {
      copy16_async(shared_address(&ring[stage][i + thread / 8][thread % 8 * 4]), from, asked < count);
      from += 16 * next * D;
      asked += 16;
    }
    commit_copies();
  };
  for (int i = 0; i < a.joined_ahead; i++) ask(i);
  float largest = nothing(), total = 0.0f;
  int stage = 0;
  for (int first = 0; first < count; first += kTogether) {
    if (first % kRound == 0)
      weigh_parts(joining, (const float2*)a.largest + slot + first * next, next, min(kRound, count - first), largest, thread,
                  barrier);
    if (a.joined_ahead == kJoinedAhead)
      wait_copies<kJoinedAhead - 2>();
    else
      wait_copies<0>();
    barrier_sync(barrier, 128);
    if (first > 0) ask(stage > 0 ? stage - 1 : a.joined_ahead - 1);
    // The first warp joins values, the second their weights' sums.
    if (thread < 64) {
      const int here = min(kTogether, count - first);
      const PartJoint* joints = joining.joints + first % kRound;
      const bool changed = (lane < here && joints[lane].keep != 1.0f) || (lane + 32 < here && joints[lane + 32].keep != 1.0f);
      const bool kept = !__any_sync(~0u, changed);
      if (thread < 32)
        join_parts(kept, joints, here, total, [&](int i) { return ring[stage][i][lane]; });
      else
        join_parts(kept, joints, here, total, [&](int i) { return joints[i].sum; });
    }
    if (++stage == a.joined_ahead) stage = 0;
  }
  if (thread == 32) joining.sum = total;
  barrier_sync(barrier, 128);
  if (thread >= 32) return;
  const float y = total / joining.sum, other = __shfl_xor_sync(~0u, y, 1);
  if (lane % 2 == 0) store(a, row, head, d + lane, y, other);
}

// Grid: D / 32, heads, rows.
KERNEL __launch_bounds__(128) combine(const __grid_constant__ AttendArgs a) {
  extern __shared__ __align__(1024) u8 shared[];
  wait_for_previous();
  let_next_start();
  combine_unit(a, a.first_row + blockIdx.z, blockIdx.y, blockIdx.x * 32, shared, threadIdx.x, 1);
}
