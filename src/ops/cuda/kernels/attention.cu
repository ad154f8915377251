// Attention over paged keys and values for few query rows, 16 of which are multiplied with a part at a time.
//
// Kernels are composed of functions for a group of 128 threads that synchronise at a named barrier.

// A part's keys, then its values, divided into chunks that one copy loads: kWide dimensions of all keys, or
// 64 positions of kRows dimensions of the values. Values in keys are the keys' chunks once more.
constexpr int kRows = kInKeys ? kWide : D % 128 == 0 ? 128 : D % 96 == 0 ? 96 : D % 64 == 0 ? 64 : 32;
constexpr int kRowGroups = D / kRows;
constexpr int kKeyChunks = D / kWide, kValueChunks = kInKeys ? kKeyChunks : 2 * kRowGroups,
              kChunks = kKeyChunks + kValueChunks;
constexpr int kKeyBytes = kPartBytes / kKeyChunks, kValueBytes = kPartBytes / kValueChunks;
constexpr int kStages = kVariant.stages, kStageBytes = kKeyBytes > kValueBytes ? kKeyBytes : kValueBytes;

// Shared memory of a group of 128 threads.
struct Group {
  u8 ring[kStages][kStageBytes];
  u16 queries[16 * D];
  union {
    u16 weights[2][16 * 64];
    float heads[4][D];  // used before the weights
  };
  float largest[4][16], sum[4][16][4];
  u64 full[kStages];
};
static_assert(16 * kResultStride * 4 <= kStages * kStageBytes, "results fit");
static_assert(sizeof(Group) == kStages * (kStageBytes + 8) + 32 * D + (D > 256 ? 16 * D : 4096) + 1280,
              "attention.cc has this");

// The ring into which chunks are loaded. All threads of the group use it together; `barrier` is the group's.
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

// Loads the chunks of parts [begin, begin + total / kChunks) of a head.
struct Chunks {
  const AttendArgs& a;
  const AttendSpan& s;
  Ring& ring;
  int kv_head, begin, total;
  bool is_once;  // no other block reads them
  int asked = 0;
  const u8 *keys = nullptr, *values = nullptr;  // of the part being requested

  __device__ const u8* address(int chunk) const {
    if (chunk < kKeyChunks) return keys + chunk * kKeyBytes;
    return (kInKeys ? keys : values) + (chunk - kKeyChunks) * kValueBytes;
  }
  // Requests the next chunk, into the stage that is `ahead` after the next one to use.
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
        if (is_once && !(kInKeys && of_keys))
          copy_bulk_once(to, address(c), bytes, ring.group.full + stage);
        else
          copy_bulk(to, address(c), bytes, ring.group.full + stage);
      }
#else
      if (c == 0) keys = part_address(a, s, kv_head, part, 0), values = part_address(a, s, kv_head, part, 1);
      const bool of_keys = c < kKeyChunks;
      const u8* from = address(c);
      for (int i = ring.thread * 16; i < (of_keys ? kKeyBytes : kValueBytes); i += 128 * 16)
        copy16_async(shared_address(to) + i, from + i, true);
#endif
      asked++;
    }
#if __CUDA_ARCH__ < 900
    commit_copies();
#endif
  }
  // Waits for the next chunk. All threads have finished the chunk before it, so its stage is refilled.
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
  int first, rows, group, start, by_all;  // tile's first row of `rows`; span's first position; seen_by_all()
  __device__ Tile(const AttendArgs& a, const AttendSpan& s, int index)
      : first(index * 16), rows(s.count * (a.heads / a.kv_heads)), group(a.heads / a.kv_heads),
        start(s.length - s.count), by_all(seen_by_all(s)) {}
  __device__ int position(int row) const { return first + row < rows ? start + (first + row) / group : -1; }
  __device__ int last() const { return start + (min(first + 16, rows) - 1) / group; }
};

// Weighted values of 16 rows for one part: the warp's share of the dimensions.
typedef float Mixed[kRowGroups][kRows / 32][4];

// Scores of 16 rows and the warp's 32 keys of a part. Loops over chunks are not unrolled: loading code that
// is not in the multiprocessor's cache takes longer than running it.
DEVICE void score_keys(Chunks& chunks, const Group& group, float scores[4][4]) {
  const int lane = threadIdx.x % 32, warp = chunks.ring.thread / 32;
  u32 queries = shared_address(group.queries);
#pragma unroll 1
  for (int c = 0; c < kKeyChunks; c++, queries += 16 * kWide * 2) {
    const u32 chunk = shared_address(chunks.next());
#pragma unroll
    for (int k = 0; k < kWide; k += 32) {
      u32 a[2][4];
#pragma unroll
      for (int j = 0; j < 2; j++)
        load_matrices(queries + swizzled<kWide>(lane % 16, k + j * 16 + lane / 16 * 8) * 2, a[j]);
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

// Turns scores into weights, which are stored in shared memory with the warp's sums. largest: the largest
// scores of rows r and r + 8.
DEVICE void weigh(const AttendArgs& a, Group& group, const Ring& ring, const Tile& tile, int part, float scores[4][4],
                  float largest[2]) {
  const int lane = threadIdx.x % 32, warp = ring.thread / 32, r = lane / 4, q = lane % 4;
  const int own[2] = {tile.position(r), tile.position(r + 8)};
  if (!plain_part(a, part, tile.start + tile.first / tile.group, tile.last(), tile.by_all))
    see<4>(a, scores[0], part * kPart + warp * 32, own, tile.by_all);
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

// The weights of the tile's rows for 32 positions, from `first` on.
DEVICE void load_weights(const Group& group, int first, u32 a[2][4]) {
  const int lane = threadIdx.x % 32;
  const u32 weights = shared_address(group.weights[first / 64]);
#pragma unroll
  for (int j = 0; j < 2; j++)
    load_matrices(weights + swizzled<64>(lane % 16, first % 64 + j * 16 + lane / 16 * 8) * 2, a[j]);
}
// The values are the keys: rows of kWide dimensions.
DEVICE void mix_keys(Chunks& chunks, const Group& group, Mixed mixed) {
  const int lane = threadIdx.x % 32, warp = chunks.ring.thread / 32;
#pragma unroll
  for (int g = 0; g < kRowGroups; g++) {
    const u32 chunk = shared_address(chunks.next());
#pragma unroll 1
    for (int k = 0; k < kPart; k += 32) {
      u32 a[2][4];
      load_weights(group, k, a);
#pragma unroll
      for (int n = 0; n < kRows / 32; n++) {
        u32 b[4];
        load_transposed(chunk + swizzled<kWide>(k + lane, warp * (kRows / 4) + n * 8) * 2, b);
        mma_f16(mixed[g][n], a[0], b[0], b[1]);
        mma_f16(mixed[g][n], a[1], b[2], b[3]);
      }
    }
  }
}
DEVICE void mix_values(Chunks& chunks, const Group& group, Mixed mixed) {
  if (kInKeys) return mix_keys(chunks, group, mixed);
  const int lane = threadIdx.x % 32, warp = chunks.ring.thread / 32;
#pragma unroll 1
  for (int half = 0; half < 2; half++)
#pragma unroll
    for (int g = 0; g < kRowGroups; g++) {
      const u32 chunk = shared_address(chunks.next());
#pragma unroll
      for (int k = 0; k < 64; k += 32) {
        u32 a[2][4];
        load_weights(group, half * 64 + k, a);
#pragma unroll
        for (int n = 0; n < kRows / 32; n++) {
          u32 b[4];
          load_matrices(chunk + swizzled<64>(warp * (kRows / 4) + n * 8 + lane % 8, k + lane / 8 * 8) * 2, b);
          mma_f16(mixed[g][n], a[0], b[0], b[1]);
          mma_f16(mixed[g][n], a[1], b[2], b[3]);
        }
      }
    }
}
// The sum of a row's weights, the same in all lanes of the row.
DEVICE float sum_of(const Group& group, int row, int q) {
  float sum = (group.sum[0][row][q] + group.sum[1][row][q]) + (group.sum[2][row][q] + group.sum[3][row][q]);
  sum += __shfl_xor_sync(~0u, sum, 1);
  return sum + __shfl_xor_sync(~0u, sum, 2);
}

DEVICE u16* query_place(Group& group, int row, int d) {
  return group.queries + d / kWide * 16 * kWide + swizzled<kWide>(row, d % kWide);
}
DEVICE void bring_queries(const AttendArgs& a, const AttendSpan& s, const Tile& tile, int kv_head, Group& group,
                          int thread) {
  constexpr int kEach = D / 64 > 0 ? D / 64 : 1;  // loaded together, to wait for memory only once
  for (int first = thread; first < 16 * (D / 8); first += 128 * kEach) {
    uint4 v[kEach];
#pragma unroll
    for (int i = 0; i < kEach; i++) {
      const int at = first + i * 128, index = tile.first + at / (D / 8);
      const long row = s.row + index / tile.group, head = kv_head * tile.group + index % tile.group;
      v[i] = make_uint4(0, 0, 0, 0);
      if (at < 16 * (D / 8) && index < tile.rows)
        v[i] = *(const uint4*)(a.q16 + (row * a.heads + head) * D + at % (D / 8) * 8);
    }
#pragma unroll
    for (int i = 0; i < kEach; i++)
      if (first + i * 128 < 16 * (D / 8))
        *(uint4*)query_place(group, (first + i * 128) / (D / 8), (first + i * 128) % (D / 8) * 8) = v[i];
  }
}
// Replaces prepare(): prepares the tile's queries, and those of the span's keys and values in parts [begin,
// end).
DEVICE void prepare_tile(const AttendArgs& a, const AttendSpan& s, const Tile& tile, int kv_head, int begin, int end,
                         Group& group, int thread, int barrier) {
  const int warp = thread / 32, lane = thread % 32;
  const int first = max(tile.start, begin * kPart), fresh = max(min(s.length, end * kPart) - first, 0);
#pragma unroll 1
  for (int i = warp; i < 16 + 2 * fresh; i += 4) {
    const int index = tile.first + i;
    const Kind kind = i < 16 ? kQuery : i % 2 ? kValue : kKey;
    const int position = kind == kQuery ? tile.position(i) : first + (i - 16) / 2;
    const int head = kind == kQuery ? kv_head * tile.group + index % tile.group : kv_head;
    float y[D / 32] = {};
    if (position >= 0) prepare_head(a, kind, s.row + position - tile.start, head, position, group.heads[warp], y);
    if (kind != kQuery) {
      cache_head(a, s, kind, kv_head, position, y);
      continue;
    }
#pragma unroll
    for (int d = 0; d < D / 32; d++) *query_place(group, i, d * 32 + lane) = kept(y[d]);
  }
#if __CUDA_ARCH__ >= 900
  other_proxy_fence();
#endif
  barrier_sync(barrier, 128);
}

// One unit of work: a tile of 16 query rows, a kv head, and up to unit_parts parts. If these are all parts,
// the final result is stored, otherwise the result of each part.
DEVICE void attend_unit(const AttendArgs& a, int unit, int kv_head, Ring& ring) {
  const AttendSpan& s = find_span(a, &AttendSpan::first_unit, unit);
  // Consecutive tiles read the same keys.
  const int tiles = (s.count * (a.heads / a.kv_heads) + 15) / 16;
  const int index = (unit - s.first_unit) % tiles, split = (unit - s.first_unit) / tiles;
  const Tile tile(a, s, index);
  const int parts = (s.length - 1) / kPart + 1 - s.begin;
  const int first_seen = a.window > 0 ? max(0, tile.start + tile.first / tile.group - a.window + 1) / kPart : 0;
  const int begin = max(first_seen, s.begin + split * s.unit_parts);
  const int end = min(max(tile.last(), tile.by_all) / kPart, s.begin + min((split + 1) * s.unit_parts, parts) - 1) + 1;
  Group& group = ring.group;
  Chunks chunks{a, s, ring, kv_head, begin, max(end - begin, 0) * kChunks, tiles == 1};
  // Chunks that previous kernels do not write can be requested before waiting.
  const int old = (tile.start / kPart - begin) * kChunks;
  int ahead = 0;
  const auto ask_old = [&] {
#pragma unroll 1
    for (; ahead < kStages - 1 && ahead < old; ahead++) chunks.ask(ahead);
  };
  if (!a.prepares) {  // prepare() started after all earlier kernels had ended
    ask_old();
  } else if (begin < end) {  // only into the L2 cache, which stays coherent with later writes
#if __CUDA_ARCH__ >= 900
    if (ring.thread < 2) prefetch_bulk(part_address(a, s, kv_head, begin, ring.thread), kPartBytes);
#endif
  }
  wait_for_previous();
  let_next_start();
  if (end <= begin) return;
  ask_old();
  if (a.prepares)
    prepare_tile(a, s, tile, kv_head, begin, end, group, ring.thread, ring.barrier);
  else
    bring_queries(a, s, tile, kv_head, group, ring.thread);
#pragma unroll 1
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
  if (s.splits > 1) return;
  // Store through shared memory, which no longer holds chunks in use: there are few rows, and neighbouring
  // values are stored together.
  float* results = (float*)group.ring;
  barrier_sync(ring.barrier, 128);
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const int head = kv_head * tile.group + (tile.first + r + 8 * i) % tile.group;
    const float factor = 1.0f / sum_with_sink(a, head, running_largest[i], running_sum[i]);
#pragma unroll
    for (int g = 0; g < kRowGroups; g++)
#pragma unroll
      for (int n = 0; n < kRows / 32; n++)
        *(float2*)(results + (r + 8 * i) * kResultStride + g * kRows + warp * (kRows / 4) + n * 8 + 2 * q) =
            make_float2(running[g][n][2 * i] * factor, running[g][n][2 * i + 1] * factor);
  }
  barrier_sync(ring.barrier, 128);
#pragma unroll 1
  for (int i = warp; i < 16 && tile.first + i < tile.rows; i += 4) {
    const int row = tile.first + i;
    store_row(a, s.row + row / tile.group, kv_head * tile.group + row % tile.group, results + i * kResultStride);
  }
#if __CUDA_ARCH__ >= 900
  other_proxy_fence();  // before chunks are loaded there again
#endif
}

// Grid: units by kv heads.
KERNEL __launch_bounds__(128) attend(const __grid_constant__ AttendArgs a) {
  extern __shared__ __align__(1024) u8 shared[];
  Ring ring{*(Group*)shared, (int)threadIdx.x, 1};
  ring.start();
  attend_unit(a, blockIdx.x / a.kv_heads, blockIdx.x % a.kv_heads, ring);
}
