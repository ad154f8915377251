// How a mixture of experts chooses: the functions of one warp for one row of logits.
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

// The row's experts, and their weights unless null. The top_k-th key is found by as many rounds; the keys up to it are
// chosen.
DEVICE void choose(const RouteArgs& a, long row, int* chosen, float* weights) {
  const Logits logits(a.logits + row * a.experts, a.experts);
  const int lane = threadIdx.x % 32;

  bool nan = false;
  logits.each([&](float x, int) { nan |= x != x; });
  if (__any_sync(~0u, nan)) {
    for (int i = lane; i < a.top_k; i += 32) {
      chosen[i] = i;
      if (weights) weights[i] = __uint_as_float(0x7FC00000u);
    }
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
  if (weights && (a.normalise || !a.sigmoid))
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
      if (weights) weights[at] = score(x) / sum * a.scale * (a.expert_scale ? a.expert_scale[e] : 1.0f);
    }
    count += __popc(all);
  });
}
