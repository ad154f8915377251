// Mixtures of experts for few rows of x: a block chooses the experts of its row, and computes gate and up of
// one of them (or of the shared expert) for 16 outputs; each of its warps has one of the kSegments parts of
// the inputs.
constexpr int kWarps = kSegments, kThreads = 32 * kWarps;
using Tiles = Step<2, 1>;
constexpr int kAhead = Tiles::kHeldWords <= 24 ? 2 : 1, kBlocks = Tiles::kHeldWords <= 24 ? 3 : 2;  // per multiprocessor

KERNEL __launch_bounds__(kThreads, kBlocks) few_gate_up(const __grid_constant__ FewGateUpArgs a) {
  __shared__ int chosen[kMostFewTopK];
  __shared__ float sums[kWarps][32];
  let_next_start();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, top_k = a.route.top_k;
  const int slots = top_k + (a.shared[0] ? 1 : 0), position = blockIdx.x / a.units, unit = blockIdx.x % a.units;
  const int row = position / slots, slot = position % slots;
  wait_for_previous();
  if (slot < top_k) {
    if (warp == 0) {
      const bool told = slot == 0 && unit == 0;  // this block passes the row's choice to the next kernel
      const long first = (long)row * top_k;
      choose_of<kVariant.held>(a.route, row, chosen, told ? a.route.weights + first : nullptr);
      __syncwarp();
      for (int i = lane; told && i < top_k; i += 32) a.route.chosen[first + i] = chosen[i];
    }
    __syncthreads();
  }

  const long tile_bytes = (long)a.input_tiles * kRecordBytes;
  const u8* weights[2];
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const u8* matrix = slot < top_k ? records_of(chosen[slot], a.weights[i], a.tables[i], a.units * tile_bytes) : a.shared[i];
    weights[i] = matrix + unit * tile_bytes;
  }
  const u8* x = (const u8*)a.x + (long)row * 128 + lane % 4 * 32;
  const auto read = [&](int k, Tiles& step) {
#pragma unroll
    for (int i = 0; i < 2; i++) step.read_weights(i, weights[i], k);
    step.read_x(0, x + (long)k * a.route.rows * 128);
  };
  const int k0 = warp * a.input_tiles / kSegments, k1 = (warp + 1) * a.input_tiles / kSegments;
  float acc[2][1][4] = {};
  Tiles steps[kAhead];
#pragma unroll
  for (int i = 0; i < kAhead; i++)
    if (k0 + i < k1) read(k0 + i, steps[i]);
  for (int k = k0; k < k1; k += kAhead)
#pragma unroll
    for (int i = 0; i < kAhead; i++) {
      if (k + i >= k1) break;
      steps[i].multiply_into(acc);
      if (k + i + kAhead < k1) read(k + i + kAhead, steps[i]);
    }

  // All 8 rows of x in the products were this row, so any column of the result can be used.
  if (lane % 4 == 0)
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
      for (int half = 0; half < 2; half++) sums[warp][i * 16 + half * 8 + lane / 4] = acc[i][0][half * 2];
  __syncthreads();
  if (warp != 0) return;
  const float sum = add_segments(&sums[0][lane], 32);
  const float up = __shfl_sync(~0u, sum, lane % 16 + 16);
  const int output = unit * 16 + lane;
  if (lane < 16 && output < a.rows)
    a.packed[lane_index(position, output, a.route.rows * slots)] = to_bf16(activation(sum, a.gelu) * up);
}
