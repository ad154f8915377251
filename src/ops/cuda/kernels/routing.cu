// Mixtures of experts: the choice of experts, the order of their rows, and the sum of their outputs.

// Logits in the order in which they are chosen: larger first, of equal ones the lower index. Two keys differ.
struct Key {
  u32 value, index;  // the index's complement
  __device__ Key(float x, int i) : index(~(u32)i) {
    const u32 bits = __float_as_uint(x == 0.0f ? 0.0f : x);
    value = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  }
  __device__ bool before(const Key& b) const { return value != b.value ? value > b.value : index > b.index; }
};

// A lane's logits of a row, and their experts.
constexpr int kHeldLogits = 16;  // in registers; those beyond are read again for each use
struct Logits {
  const float* all;
  int experts, lane;
  float held[kHeldLogits];

  __device__ Logits(const float* row, int count) : all(row), experts(count), lane(threadIdx.x % 32) {
#pragma unroll
    for (int i = 0; i < kHeldLogits; i++) held[i] = lane + i * 32 < experts ? all[lane + i * 32] : 0.0f;
  }
  template <class Use>
  __device__ void each(const Use& use) const {
#pragma unroll
    for (int i = 0; i < kHeldLogits; i++)
      if (lane + i * 32 < experts) use(held[i], lane + i * 32);
    for (int e = lane + kHeldLogits * 32; e < experts; e += 32) use(all[e], e);
  }
  // All lanes call use() equally often, also with experts that there are not.
  template <class Use>
  __device__ void together(const Use& use) const {
#pragma unroll
    for (int i = 0; i < kHeldLogits; i++) use(held[i], lane + i * 32);
    for (int e = lane + kHeldLogits * 32; e - lane < experts; e += 32) use(e < experts ? all[e] : 0.0f, e);
  }
};

// One warp for each row. The top_k-th key is found by as many rounds; the keys up to it are chosen.
KERNEL route(const __grid_constant__ RouteArgs a) {
  wait_for_previous();
  let_next_start();
  const int lane = threadIdx.x % 32, row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  if (row >= a.rows) return;
  const Logits logits(a.logits + (long)row * a.experts, a.experts);
  int* chosen = a.chosen + (long)row * a.top_k;
  float* weights = a.weights + (long)row * a.top_k;

  bool nan = false;
  logits.each([&](float x, int) { nan |= x != x; });
  if (__any_sync(~0u, nan)) {
    for (int i = lane; i < a.top_k; i += 32) chosen[i] = i, weights[i] = __uint_as_float(0x7FC00000u);
    return;
  }

  Key last(0.0f, 0);
  float best = 0.0f;
  for (int n = 0; n < a.top_k; n++) {
    u32 value = 0, index = 0;
    float logit = 0.0f;
    logits.each([&](float x, int e) {
      const Key key(x, e);
      if ((n == 0 || last.before(key)) && (key.value > value || (key.value == value && key.index > index)))
        value = key.value, index = key.index, logit = x;
    });
    last.value = __reduce_max_sync(~0u, value);
    last.index = __reduce_max_sync(~0u, value == last.value ? index : 0u);
    if (n > 0) continue;
    const u32 owner = __ballot_sync(~0u, value == last.value && index == last.index);
    best = __shfl_sync(~0u, logit, __ffs(owner) - 1);
  }

  // Scores, and what they are divided by: the sum over all experts, or over those chosen. Where that makes no
  // difference, each is multiplied by e^-shift: not all become 0.
  const float shift = !a.sigmoid ? best : a.normalise ? fminf(best, 0.0f) : 0.0f;
  const auto score = [&](float x) {
    if (!a.sigmoid) return expf(x - shift);
    return x < 0.0f ? expf(x - shift) / (1.0f + expf(x)) : 1.0f / (1.0f + expf(-x));
  };
  const auto taken = [&](float x, int e) { return !last.before(Key(x, e)); };
  float sum = 0.0f;
  if (a.normalise || !a.sigmoid)
    logits.each([&](float x, int e) {
      if (!a.normalise || taken(x, e)) sum += score(x);
    });
  sum = a.normalise || !a.sigmoid ? warp_sum(sum) : 1.0f;

  int count = 0;
  logits.together([&](float x, int e) {
    const bool mine = e < a.experts && taken(x, e);
    const u32 all = __ballot_sync(~0u, mine);
    if (mine) {
      const int at = count + __popc(all & ((1u << lane) - 1));
      chosen[at] = e;
      weights[at] = score(x) / sum * a.scale * (a.expert_scale ? a.expert_scale[e] : 1.0f);
    }
    count += __popc(all);
  });
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

  // This expert's slots reach to the next one's; the last expert's to the end.
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
  a.out[row * a.width + i] = y;
}
