// Mixtures of experts: the choice of experts (one warp for each row), the sorting of their rows, and the sum
// of their outputs.

KERNEL route(const __grid_constant__ RouteArgs a) {
  wait_for_previous();
  let_next_start();
  const long row = (long)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  if (row >= a.rows) return;
  int* chosen = a.chosen + row * a.top_k;
  float* weights = a.weights + row * a.top_k;
  if (a.experts <= 256)
    choose_of<8>(a, row, chosen, weights);
  else if (a.experts <= 512)
    choose_of<16>(a, row, chosen, weights);
  else
    choose_of<kMostExperts / 32>(a, row, chosen, weights);
}

// Phi-3.5-MoE's choice (RouterSpec::Scores::sparse_mixer), one thread for each row: the two largest logits, each
// with its share in a softmax over the experts that are not much worse; the second's is without the first.
KERNEL route_sparse(const __grid_constant__ RouteArgs a) {
  wait_for_previous();
  let_next_start();
  const long row = (long)blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= a.rows) return;
  const float* logits = a.logits + row * a.experts;
  int chosen[2] = {-1, -1};
  float scores[2];
  bool nan = false;
#pragma unroll
  for (int turn = 0; turn < 2; turn++) {
    int best = -1;
    for (int i = 0; i < a.experts; i++) {
      nan |= logits[i] != logits[i];
      if (i != chosen[0] && (best < 0 || logits[i] > logits[best])) best = i;
    }
    float sum = 0.0f;
    for (int i = 0; i < a.experts; i++) {
      const float size = fmaxf(fmaxf(logits[i], -logits[i]), logits[best]);
      const bool worse = (logits[best] - logits[i]) / size > 2.0f * a.tolerance;
      if (i != chosen[0] && !worse) sum += expf(logits[i] - logits[best]);
    }
    chosen[turn] = best;
    scores[turn] = 1.0f / sum;
  }
  const float divisor = a.normalise ? fmaxf(scores[0] + scores[1], a.least_sum) + a.added_sum : 1.0f;
  const int first = chosen[1] < chosen[0] ? 1 : 0;
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const int at = i ^ first, e = nan ? i : at ? chosen[1] : chosen[0];
    const float score = at ? scores[1] : scores[0];
    a.chosen[row * 2 + i] = e;
    a.weights[row * 2 + i] = nan ? __uint_as_float(0x7FC00000u)
                                 : score / divisor * a.scale * (a.expert_scale ? a.expert_scale[e] : 1.0f);
  }
}

KERNEL add_expert_bias(const __grid_constant__ ExpertBiasArgs a) {
  wait_for_previous();
  let_next_start();
  const long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= (long)a.pairs * a.width) return;
  const long position = i / a.width, pair = a.order ? a.order[position] : position;
  a.y[i] += a.bias[(long)a.chosen[pair] * a.width + i % a.width];
}

// One block for each expert: counts the pairs of the experts before it and its own, then places its own.
KERNEL sort_pairs(const __grid_constant__ SortArgs a) {
  __shared__ int before[32], own[32];
  wait_for_previous();
  let_next_start();
  const int expert = blockIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const int each = (a.pairs + blockDim.x - 1) / blockDim.x * 32, begin = warp * each, end = min(a.pairs, begin + each);
  int less = 0, equal = 0;
  for (int i = begin + lane; i < end; i += 32) less += a.chosen[i] < expert, equal += a.chosen[i] == expert;
  less = __reduce_add_sync(~0u, less), equal = __reduce_add_sync(~0u, equal);
  if (lane == 0) before[warp] = less, own[warp] = equal;
  __syncthreads();
  int first = 0, count = 0, at = 0;
  for (int w = 0; w < warps; w++) {
    if (w == warp) at = count;
    first += before[w], count += own[w];
  }
  if (threadIdx.x == 0 && a.counts) a.counts[expert] += count;
  at += first;
  for (int i = begin; i < end; i += 32) {
    const bool mine = i + lane < end && a.chosen[i + lane] == expert;
    const u32 all = __ballot_sync(~0u, mine);
    if (mine) a.order[at + __popc(all & ((1u << lane) - 1))] = i + lane;
    at += __popc(all);
  }

  // An expert's slots extend to the next expert's; the last expert's extend to the end.
  const auto slot_of = [&](int e, int position) { return a.compact ? position : e + position / a.tile_rows; };
  const int from = slot_of(expert, first), to = expert + 1 == a.experts ? a.slots : slot_of(expert + 1, first + count);
  for (int i = threadIdx.x; from + i < to; i += blockDim.x) {
    const int done = i * a.tile_rows;
    a.tiles[from + i] = {expert, first + done, max(0, min(a.tile_rows, count - done))};
  }
}

KERNEL weighted_sum(const __grid_constant__ WeightedSumArgs a) {
  wait_for_previous();
  let_next_start();
  const int blocks = (a.width + blockDim.x - 1) / blockDim.x, i = blockIdx.x % blocks * blockDim.x + threadIdx.x;
  const long row = blockIdx.x / blocks;
  if (a.counts && blockIdx.x == 0)
    for (int n = threadIdx.x; n < a.top_k; n += blockDim.x) a.counts[a.chosen[n]]++;
  if (i >= a.width) return;
  const float* from = a.outputs + row * a.top_k * a.width + i;
  const float* weights = a.weights + row * a.top_k;
  float y = 0.0f;
#pragma unroll 8
  for (int n = 0; n < a.top_k; n++) y = __fmaf_rn(weights[n], from[(long)n * a.width], y);
  if (a.shared) {
    const float scale = a.gate_logits ? sigmoid(a.gate_logits[row]) : 1.0f;
    y = __fmaf_rn(scale, a.shared[row * a.width + i], y);
  }
  a.out[row * a.width + i] = a.residual ? a.residual[row * a.width + i] + y : y;
}
