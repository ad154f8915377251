// Mixtures of experts for few rows of x: a block computes 16 outputs of one row, that is, down of all its
// experts and their weighted sum. Each of its warps has one of the kSegments parts of the inputs, for every
// kTogether-th expert.
constexpr int kTogether = 2, kWarps = kTogether * kSegments, kThreads = 32 * kWarps;
using Tiles = Step<1, 1>;
constexpr int kAhead = Tiles::kHeldWords <= 16 ? 2 : 1;

KERNEL __launch_bounds__(kThreads, 2) few_down(const __grid_constant__ FewDownArgs a) {
  __shared__ int chosen[kMostFewTopK];
  __shared__ float sums[kMostFewTopK + 1][kSegments][16], totals[kMostFewTopK + 1][16];
  let_next_start();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, segment = warp % kSegments;
  const int slots = a.top_k + (a.shared ? 1 : 0), row = blockIdx.x / a.units, unit = blockIdx.x % a.units;
  wait_for_previous();
  if (threadIdx.x < a.top_k) {
    chosen[threadIdx.x] = a.chosen[(long)row * a.top_k + threadIdx.x];
    if (a.counts && unit == 0) atomicAdd(a.counts + chosen[threadIdx.x], 1ull);
  }
  __syncthreads();

  // A warp's products, in the order in which it computes them.
  const int k0 = segment * a.input_tiles / kSegments, k1 = (segment + 1) * a.input_tiles / kSegments;
  struct Place {
    int slot, k;
  };
  const long tile_bytes = (long)a.input_tiles * kRecordBytes;
  Place ahead{warp / kSegments, k0}, now = ahead;
  const auto advance = [&](Place& place) {
    if (++place.k == k1) place.k = k0, place.slot += kTogether;
  };
  const auto read = [&](Tiles& to) {
    if (ahead.slot >= slots) return;
    const u8* matrix = ahead.slot < a.top_k
                           ? records_of(chosen[ahead.slot], a.weights, a.table, a.units * tile_bytes)
                           : a.shared;
    to.read_weights(0, matrix + unit * tile_bytes, ahead.k);
    to.read_x(0, (const u8*)a.x + ((long)ahead.k * a.x_rows + row * slots + ahead.slot) * 128 + lane % 4 * 32);
    advance(ahead);
  };
  float acc[1][1][4] = {};
  const auto store = [&](int slot) {
    if (lane % 4 == 0) sums[slot][segment][lane / 4] = acc[0][0][0], sums[slot][segment][lane / 4 + 8] = acc[0][0][2];
#pragma unroll
    for (int e = 0; e < 4; e++) acc[0][0][e] = 0.0f;
  };
  if (k0 == k1) {  // a matrix of few inputs: this segment is empty
    for (int slot = now.slot; slot < slots; slot += kTogether) store(slot);
    now.slot = ahead.slot = slots;
  }
  Tiles steps[kAhead];
#pragma unroll
  for (int i = 0; i < kAhead; i++) read(steps[i]);
  while (now.slot < slots)
#pragma unroll
    for (int i = 0; i < kAhead; i++) {
      if (now.slot >= slots) break;
      steps[i].multiply_into(acc);
      read(steps[i]);
      if (now.k + 1 == k1) store(now.slot);
      advance(now);
    }
  __syncthreads();
  for (int i = threadIdx.x; i < slots * 16; i += kThreads)
    totals[i / 16][i % 16] = add_segments(&sums[i / 16][0][i % 16], 16);
  __syncthreads();
  const int output = unit * 16 + threadIdx.x;
  if (threadIdx.x >= 16 || output >= a.rows) return;
  float y = 0.0f;
  for (int n = 0; n < a.top_k; n++)
    y = __fmaf_rn(a.expert_weights[(long)row * a.top_k + n], totals[n][threadIdx.x], y);
  if (a.shared) y = __fmaf_rn(a.gate_logits ? sigmoid(a.gate_logits[row]) : 1.0f, totals[a.top_k][threadIdx.x], y);
  const long to = (long)row * a.rows + output;
  a.out[to] = a.residual ? a.residual[to] + y : y;
}
