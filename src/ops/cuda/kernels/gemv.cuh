// y = x W^T for up to 8 * NT rows of x; every weight is read once. A unit of work is two halves of TILES
// tiles of 16 weight rows (with SWIGLU, half from each matrix). A block's 16 warps are 8 pairs: a pair has
// one of the kSegments parts of the inputs, and each of its warps one half. Weights, and the activations that
// a pair shares, stream through rings in shared memory with STAGES slots of STEPS input tiles: before the end
// of a unit, only pairs synchronise. A row's result does not depend on other rows, because a column of a
// tensor core product does not.
// With NORMED, x is not packed: each block makes it from plain rows, normalises it, and holds all of it in
// shared memory. So a layer's norm needs no launch, and warps do not synchronise before the end of a unit.
// NORMED is the number of inputs per lane.
// With RANKS, the inputs are one rank's, those of kOwn segments, and there is one matrix. A unit then has 2
// RANKS "halves", whose warps share activations. The halves are one grid apart, so that each block gets some;
// a.units counts halves. Their sums are sent to all ranks, and after its last unit a block waits for the
// other ranks' sums of the same rows.
// `adds`, if it is not null, is what adapters add to the products (ops/low_rank.h); not with RANKS or NORMED.
constexpr int NT = kVariant.row_tiles, SWIGLU = kVariant.swiglu, TILES = kVariant.tiles, STEPS = kVariant.steps,
              STAGES = kVariant.stages, NORMED = kVariant.lane_inputs, RANKS = kVariant.ranks;
constexpr int kOwn = RANKS ? kSegments / RANKS : kSegments;
constexpr int kWarps = 2 * kSegments, kThreads = 32 * kWarps;
constexpr int kHalves = kWarps / kOwn;  // per unit; also the number of warps that share activations
constexpr int kUnitRows = TILES * 16 * (SWIGLU ? 1 : kHalves);
constexpr int kTokenStride = TILES * 16 + kSumsPad, kWarpSums = 8 * kTokenStride;  // for 8 rows of x
constexpr int kBuffers = NT == 1 ? 2 : 1;  // of sums
constexpr int kTileBytes = STEPS * kRecordBytes;

DEVICE int matrix_of(const LinearArgs& a, int unit) {
  int m = 0;
  while (m + 1 < a.matrices && unit >= a.matrix[m + 1].first) m++;
  return m;
}

// With RANKS: the index of a half among all halves.
DEVICE int number_of_half(int unit, int half) {
  return (unit - (int)blockIdx.x) * kHalves + half * (int)gridDim.x + (int)blockIdx.x;
}
DEVICE bool is_unit(const LinearArgs& a, int unit) { return (RANKS ? number_of_half(unit, 0) : unit) < a.units; }

// The address of tile t of a unit's half.
DEVICE const u8* tile_address(const LinearArgs& a, int unit, int half, int t) {
  const MatrixArgs& matrix = a.matrix[SWIGLU ? half : RANKS ? 0 : matrix_of(a, unit)];
  const int first = SWIGLU ? unit : RANKS ? number_of_half(unit, half) : (unit - matrix.first) * kHalves + half;
  const int tile = first * TILES + t;
  return matrix.weights + (long)min(tile, (matrix.rows + 15) / 16 - 1) * a.input_tiles * kRecordBytes;
}

// Waits for the other warps that share the segment.
DEVICE void pair_barrier(int segment) { barrier_sync(segment + 1, 32 * kHalves); }

// Loads weights and activations into the rings, in the order in which a warp uses them.
struct Reader {
  const u8* from[TILES];
  const u8* x;  // address of the segment's first input tile, plus this lane's offset
  u32 weights_to, x_to, slot;
  int unit, half, k, k0, k1, x_bytes, x_tile_bytes, x_lane;  // of a tile of x: bytes to load, and all

  __device__ void begin(const LinearArgs& a) {
    k = k0;
    if (!is_unit(a, unit)) return;
    if (RANKS && number_of_half(unit, half) >= a.units) return;
#pragma unroll
    for (int t = 0; t < TILES; t++)
      from[t] = tile_address(a, unit, half, t) + k0 * kRecordBytes + threadIdx.x % 32 * 16;
  }
  __device__ bool done(const LinearArgs& a) const { return !is_unit(a, unit) || k0 == k1; }
  __device__ void weights(const LinearArgs& a) const {
    if (RANKS && number_of_half(unit, half) >= a.units) return;
    const u32 at = weights_to + slot * TILES * kTileBytes;
    const int bytes = min(STEPS, k1 - k) * kRecordBytes - threadIdx.x % 32 * 16;
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
      for (int b = 0; b < kTileBytes; b += 512) copy16_async(at + t * kTileBytes + b, from[t] + b, b < bytes);
  }
  // The pair's lanes load 16 bytes each; a row of x is 8 such pieces. If STEPS > 1, whole tiles are loaded.
  __device__ void activations() const {
    if (NORMED) return;
    const u8* tiles = x + (long)(k - k0) * x_tile_bytes;
    const u32 at = x_to + slot * STEPS * (x_bytes / 128 * kXStride);
    const int bytes = min(STEPS, k1 - k) * x_bytes - x_lane;
#pragma unroll
    for (int b = 0; b < STEPS * NT * 1024; b += 512 * kHalves) copy16_async(at + b / 128 * kXStride, tiles + b, b < bytes);
  }
  __device__ void advance(const LinearArgs& a) {
    slot = slot + 1 == STAGES ? 0 : slot + 1;
    k += STEPS;
#pragma unroll
    for (int t = 0; t < TILES; t++) from[t] += kTileBytes;
    if (k < k1) return;
    unit += gridDim.x;
    begin(a);
  }
};

// Adds the products of the records of COUNT input tiles with x to the sums. x_at: offsets of a lane's parts
// of x. For few rows, all chains of products advance together, to hide the tensor cores' latency; with more
// rows, one tile has enough chains.
template <int COUNT>
DEVICE void multiply(const u8* weights, const u8* x, int x_step, const int x_at[NT], float acc[TILES][NT][4]) {
  constexpr int kTogether = NT == 1 ? TILES : 1;
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int c = 0; c < COUNT; c++) {
    u32 b[NT][8];
#pragma unroll
    for (int t = 0; t < NT; t++)
#pragma unroll
      for (int i = 0; i < 2; i++) *(uint4*)&b[t][4 * i] = *(const uint4*)(x + c * x_step + x_at[t] + i * 16);
#pragma unroll
    for (int first = 0; first < TILES; first += kTogether) {
      Record record[kTogether];
#pragma unroll
      for (int i = 0; i < kTogether; i++) {
        read_record(weights + (first + i) * kTileBytes + c * kRecordBytes, record[i]);
      }
      multiply(record, b, *(float (*)[kTogether][NT][4])(acc + first));
    }
  }
}

// Makes tiles in shared memory, x_step bytes apart, from plain rows, normalised in the same way as by
// norm_rows() in rows.cu: each warp does the work of one warp there. Waits for the previous kernel. sums: one
// number for each warp. asked() is called after the loads of the rows have been issued.
template <class Asked>
DEVICE void make_inputs(const LinearArgs& a, u8* x, int x_step, float* sums, const Asked& asked) {
  constexpr int kEach = NORMED ? NORMED : 1;
  const RowsArgs& p = a.plain;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = warp / p.warps;
  const int first = warp % p.warps * 32 + lane, step = p.warps * 32;
  const bool here = row < a.rows;
  float numbers[kEach], weight[kEach], sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kEach; i++)
    weight[i] = here && p.weight && first + i * step < p.inputs ? p.weight[first + i * step] : 1.0f;
  wait_for_previous();
  const float* from = p.x + (long)row * p.inputs + first;
#pragma unroll
  for (int i = 0; i < kEach; i++) numbers[i] = here && first + i * step < p.inputs ? from[i * step] : 0.0f;
  asked();
#pragma unroll
  for (int i = 0; i < kEach; i++)
    if (first + i * step < p.inputs) sum = __fmaf_rn(numbers[i], numbers[i], sum);
  sum = warp_sum(sum);
  if (lane == 0) sums[warp] = sum;
  __syncthreads();
  if (here) {
    sum = 0.0f;
    for (int w = 0; w < p.warps; w++) sum += sums[row * p.warps + w];
    const float factor = p.weight ? row_factor(sum, p.inputs, p.eps) : 1.0f;
#pragma unroll
    for (int i = 0; i < kEach; i++) {
      const int at = first + i * step;
      if (at >= a.input_tiles * kTileK) break;
      const u16 y = to_bf16(row_norm(numbers[i], factor, weight[i]));
      *(u16*)(x + at / kTileK * x_step + row * kXStride + lane_input(at % kTileK) * 2) = y;
      if (p.lanes && blockIdx.x == 0) p.lanes[lane_index(row, at, a.x_rows)] = y;
    }
  }
  __syncthreads();
}

// Adds up a dot product from this block's sums.
DEVICE float total(const float* sums, int token, int row) {
  return add_segments(sums + token * kTokenStride + row, kWarpSums);
}

// The down-projections of all parts, whose pieces are added up in order.
DEVICE void add_pieces(const ProductAdds& adds, float* z) {
  for (int i = threadIdx.x; i < adds.numbers; i += kThreads) {
    int p = 0;
    while (p + 1 < adds.parts && i >= adds.part[p + 1].at) p++;
    const LowRankPart& part = adds.part[p];
    const float* from = part.z + (long)((i - part.at) / part.rank) * part.columns + (i - part.at) % part.rank;
    float sum = *from;
#pragma unroll 4
    for (int n = 1; n < part.pieces; n++) sum += from[n * (long)part.count * part.columns];
    z[i] = sum;
  }
}

// The destination of a unit's results.
struct Results {
  const LinearArgs& a;
  const MatrixArgs& matrix;
  int unit, first;
  const ProductAdds* adds;
  const float* z;  // see add_pieces()

  __device__ Results(const LinearArgs& args, int unit, const ProductAdds* adds = nullptr, const float* z = nullptr)
      : a(args),
        matrix(a.matrix[SWIGLU || RANKS ? 0 : matrix_of(a, unit)]),
        unit(unit),
        first((unit - matrix.first) * kUnitRows),
        adds(adds),
        z(z) {}
  // y, the product of matrix m's row o with a row of x, after the parts of the matrix.
  __device__ float with_parts(int m, int row, int o, float y) const {
    if (!adds) return y;
    for (int p = m == 0 ? 0 : adds->end[m - 1]; p < adds->end[m]; p++) {
      const LowRankPart& part = adds->part[p];
      if (row < part.begin || row >= part.begin + part.count) continue;
      const float *up = part.up + (long)o * part.rank, *from = z + part.at + (row - part.begin) * part.rank;
      float acc = 0.0f;
      int r = 0;
      if (part.rank % 4 == 0) {
#pragma unroll 4
        for (; r < part.rank; r += 4) {
          const float4 weights = *reinterpret_cast<const float4*>(up + r);
          acc = __fmaf_rn(weights.x, from[r], acc), acc = __fmaf_rn(weights.y, from[r + 1], acc);
          acc = __fmaf_rn(weights.z, from[r + 2], acc), acc = __fmaf_rn(weights.w, from[r + 3], acc);
        }
      }
      for (; r < part.rank; r++) acc = __fmaf_rn(up[r], from[r], acc);
      y = __fmaf_rn(part.scale, acc, y);
    }
    return y;
  }
  // Requests the parts' weights for the number of y at `to`.
  __device__ void prefetch_parts(long to) const {
    if (!adds || to < 0) return;
    const int row = (int)(to / matrix.rows), o = (int)(to % matrix.rows), m = (int)(&matrix - a.matrix);
    for (int p = m == 0 ? 0 : adds->end[m - 1]; p < adds->end[SWIGLU ? 1 : m]; p++) {
      const LowRankPart& part = adds->part[p];
      if (row >= part.begin && row < part.begin + part.count) prefetch(part.up + (long)o * part.rank);
    }
  }
  // The index of element e of the 8 rows of x from row 8 t on, or -1.
  __device__ long place(int t, int e) const {
    const int own = e % kUnitRows, at = t * 8 + e / kUnitRows;
    const int row = RANKS ? number_of_half(unit, own / (TILES * 16)) * TILES * 16 + own % (TILES * 16) : first + own;
    const bool here = e < 8 * kUnitRows && at < a.rows && row < matrix.rows;
    return here ? (long)(a.first_row + at) * matrix.rows + row : -1;
  }
  // Sends the sums of one number of y to every rank.
  __device__ void send_sums(const float* sums, long to) const {
    const SegmentArgs& s = a.segments;
    const long numbers = (long)a.all_rows * matrix.rows;
#pragma unroll
    for (int i = 0; i < kOwn; i += 2) {
      const float second = kOwn > 1 ? sums[(i + 1) * kWarpSums] : 0.0f;
      for (int r = 0; r < s.ranks; r++)
        send((Line*)s.to[r] + i / 2 * numbers + to, __float_as_uint(sums[i * kWarpSums]), __float_as_uint(second),
             s.epoch);
    }
  }
  // Waits for the sums of these 8 rows, and stores the results.
  __device__ void receive_sums(int t) const {
    constexpr int kLines = kOwn > 1 ? kSegments / 2 : kSegments;
    const long numbers = (long)a.all_rows * matrix.rows;
#pragma unroll
    for (int i = 0; i * kThreads < 8 * kUnitRows; i++) {
      const long to = place(t, threadIdx.x + i * kThreads);
      if (to < 0) continue;
      const float residual = matrix.residual ? matrix.residual[to] : 0.0f;
      uint2 words[kLines];
      receive((const Line*)a.segments.from + to, numbers, a.segments.epoch, a.segments.failed, words);
      float sums[kSegments];
#pragma unroll
      for (int s = 0; s < kSegments; s++)
        sums[s] = __uint_as_float(kLines == kSegments ? words[s % kLines].x : s % 2 ? words[s / 2].y : words[s / 2].x);
      const float y = add_segments(sums, 1);
      matrix.out[to] = matrix.residual ? y + residual : y;
    }
  }
  // Stores these 8 rows; with few rows of x, the residuals were loaded before.
  __device__ void store(int t, const float* sums, const float residual[2]) const {
#pragma unroll
    for (int i = 0; i * kThreads < 8 * kUnitRows; i++) {
      const int e = threadIdx.x + i * kThreads, own = e % kUnitRows, token = e / kUnitRows;
      const long to = place(t, e);
      if (to < 0) continue;
      const float* of = sums + (SWIGLU ? 0 : own / (TILES * 16) * kOwn * kWarpSums);
      if (kOwn < kSegments) {
        send_sums(of + token * kTokenStride + own % (TILES * 16), to);
        continue;
      }
      const int row = a.first_row + t * 8 + token, o = first + own;
      float y = total(of, token, own % (TILES * 16));
      if (SWIGLU) {
        const float up = with_parts(1, row, o, total(of + kSegments * kWarpSums, token, own));
        a.tiles[tile_index(row, o, a.tiles_rows)] = to_bf16(silu(with_parts(0, row, o, y)) * up);
        continue;
      }
      if (matrix.residual) y += NT == 1 ? residual[i] : matrix.residual[to];
      matrix.out[to] = with_parts((int)(&matrix - a.matrix), row, o, y);
    }
  }
};

DEVICE void multiply_units(const LinearArgs& a, const ProductAdds* adds) {
  extern __shared__ __align__(128) u8 shared[];
  let_next_start();
  float* sums = (float*)shared;
  float* z = sums + kBuffers * kWarps * kWarpSums;
  u8* rings = (u8*)(z + (adds ? kAddedNumbers : 0));
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, half = warp / kOwn, segment = warp % kOwn;
  const int x_step = a.rows * kXStride;
  const u8* weights = rings + warp * STAGES * TILES * kTileBytes;
  const u8* x = rings + kWarps * STAGES * TILES * kTileBytes + (NORMED ? 0 : segment * STAGES * STEPS * x_step);
  Reader reader;
  reader.half = half;
  reader.k0 = segment * a.input_tiles / kOwn;
  reader.k1 = (segment + 1) * a.input_tiles / kOwn;
  reader.x_bytes = a.rows * 128;
  reader.x_tile_bytes = a.x_rows * 128;
  reader.x_lane = (half * 32 + lane) * 16;
  reader.x = (const u8*)a.x + ((long)reader.k0 * a.x_rows + a.first_row) * 128 + reader.x_lane;
  reader.weights_to = shared_address(weights) + lane * 16;
  reader.x_to = shared_address(x) + (half * 4 + lane / 8) * kXStride + lane % 8 * 16;
  reader.slot = 0;
  reader.unit = blockIdx.x;
  reader.begin(a);

  // Some slots are filled with weights while the previous kernel still runs; more of them would delay x. Then
  // activations and the other slots are loaded.
  constexpr int kFilled = NORMED ? STAGES : STAGES - 1;
  const int early_slots = min(kFilled, a.early);
  Reader early = reader;
  const auto fill = [&](int slots) {
    for (int i = 0; i < slots; i++) {
      if (!early.done(a)) early.weights(a), early.advance(a);
      commit_copies();
    }
  };
  fill(early_slots);
  if (NORMED) {
    make_inputs(a, rings + kWarps * STAGES * TILES * kTileBytes, x_step, sums, [&] { fill(kFilled - early_slots); });
    reader = early;
  } else {
    wait_for_previous();
    for (int i = 0; i < kFilled; i++) {
      if (!reader.done(a)) {
        if (i >= early_slots) reader.weights(a);
        reader.activations(), reader.advance(a);
      }
      commit_copies();
    }
  }
  if (adds) add_pieces(*adds, z);
  const auto fetch = [&] {
    if (!reader.done(a)) reader.weights(a), reader.activations(), reader.advance(a);
    commit_copies();
  };

  u32 slot = 0;
  int x_at[NT], buffer = 0;
#pragma unroll
  for (int t = 0; t < NT; t++)  // rows that x lacks are not stored
    x_at[t] = min(t * 8 + lane / 4, a.rows - 1) * kXStride + lane % 4 * 32;
  for (int unit = blockIdx.x; is_unit(a, unit); unit += gridDim.x) {
    const Results results(a, unit, adds, z);
    const bool wanted = !RANKS || number_of_half(unit, half) < a.units;
    // With few rows a thread stores at most two numbers, and loads their residuals before the products.
    float residual[2] = {};
#pragma unroll
    for (int i = 0; i < 2; i++)
      if (const long to = results.place(0, threadIdx.x + i * kThreads); NT == 1 && !RANKS && results.matrix.residual && to >= 0)
        residual[i] = results.matrix.residual[to];
#pragma unroll
    for (int t = 0; t < NT; t++)
#pragma unroll
      for (int i = 0; i * kThreads < 8 * kUnitRows; i++)
        results.prefetch_parts(results.place(t, threadIdx.x + i * kThreads));
    float acc[TILES][NT][4];
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
#pragma unroll
      for (int t = 0; t < NT; t++)
#pragma unroll
        for (int i = 0; i < 4; i++) acc[tile][t][i] = 0.0f;
    for (int k = reader.k0; k < reader.k1; k += STEPS) {
      if (NORMED) {
        wait_copies<STAGES - 1>();
        __syncwarp();
      } else {
        if (STAGES == 1) pair_barrier(segment), fetch();
        wait_copies<(STAGES > 2 ? STAGES - 2 : 0)>();
        pair_barrier(segment);  // the slot is filled, and the previous one is free
        if (STAGES > 1) fetch();
      }
      const u8 *w = weights + slot * TILES * kTileBytes, *at = x + (NORMED ? k : slot * STEPS) * x_step;
      if (wanted && k + STEPS <= reader.k1)
        multiply<STEPS>(w, at, x_step, x_at, acc);
      else if (wanted)
        for (int i = 0; i < STEPS && k + i < reader.k1; i++)
          multiply<1>(w + i * kRecordBytes, at + i * x_step, 0, x_at, acc);
      if (NORMED) __syncwarp(), fetch();
      slot = slot + 1 == STAGES ? 0 : slot + 1;
    }

    const int r = lane / 4, q = lane % 4;
#pragma unroll
    for (int t = 0; t < NT; t++) {
      float* here = sums + buffer * kWarps * kWarpSums;
      if (kBuffers == 1)
        __syncthreads();  // the previous sums have been read
      else
        buffer ^= 1;
#pragma unroll
      for (int tile = 0; tile < TILES; tile++)
#pragma unroll
        for (int i = 0; i < 4; i++)
          here[warp * kWarpSums + (2 * q + i % 2) * kTokenStride + tile * 16 + r + i / 2 * 8] = acc[tile][t][i];
      __syncthreads();
      results.store(t, here, residual);
    }
  }
  if (RANKS)
    for (int unit = blockIdx.x; is_unit(a, unit); unit += gridDim.x)
      for (int t = 0; t < NT; t++) Results(a, unit).receive_sums(t);
}
