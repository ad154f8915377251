// How a mixture of experts chooses: a warp for each row of logits.

// Logits in the order in which they are chosen. Two that compare equal have the same key.
DEVICE u32 key_of(float x) {
  const u32 bits = __float_as_uint(x == 0.0f ? 0.0f : x);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// A row with a NaN: its weights are NaN, too.
DEVICE void choose_none(const RouteArgs& a, int* chosen, float* weights) {
  for (int i = threadIdx.x % 32; i < a.top_k; i += 32) {
    chosen[i] = i;
    if (weights) weights[i] = __uint_as_float(0x7FC00000u);
  }
}

// The top_k largest of up to 32 * HELD logits, one after the other; of equal ones the lower index. -> the lane's, a bit
// for each: bit i is expert 32 i + lane. best: the largest logit.
template <int HELD>
DEVICE u64 take_largest(const RouteArgs& a, const float logits[HELD], float& best) {
  const int lane = threadIdx.x % 32;
  u32 keys[HELD];  // 0: taken, or no expert
#pragma unroll
  for (int i = 0; i < HELD; i++) keys[i] = i * 32 + lane < a.experts ? key_of(logits[i]) : 0u;
  u64 taken = 0;
  for (int n = 0; n < a.top_k; n++) {
    u32 most = 0;
#pragma unroll
    for (int i = 0; i < HELD; i++) most = max(most, keys[i]);
    const u32 largest = __reduce_max_sync(~0u, most);
    u32 own = ~0u;  // the lane's first expert with it
#pragma unroll
    for (int i = HELD; i-- > 0;)
      if (keys[i] == largest) own = i * 32 + lane;
    const u32 expert = ~__reduce_max_sync(~0u, ~own);
    if (n == 0) best = largest >> 31 ? __uint_as_float(largest & 0x7FFFFFFFu) : __uint_as_float(~largest);
#pragma unroll
    for (int i = 0; i < HELD; i++)
      if (expert == i * 32 + lane) keys[i] = 0u, taken |= 1ull << i;
  }
  return taken;
}

// The row's experts in ascending order, and their weights unless null.
template <int HELD>
DEVICE void choose_of(const RouteArgs& a, long row, int* chosen, float* weights) {
  const int lane = threadIdx.x % 32;
  const float* from = a.logits + row * a.experts;
  float logits[HELD];
  bool nan = false;
#pragma unroll
  for (int i = 0; i < HELD; i++) {
    logits[i] = i * 32 + lane < a.experts ? from[i * 32 + lane] : 0.0f;
    nan |= logits[i] != logits[i];
  }
  if (__any_sync(~0u, nan)) return choose_none(a, chosen, weights);
  float best = 0.0f;
  const u64 taken = take_largest<HELD>(a, logits, best);

  // Scores, and what they are divided by: the sum over all experts, or over those chosen. Where that makes no
  // difference, each is multiplied by e^-shift: not all become 0.
  const float shift = !a.sigmoid ? best : a.normalise ? fminf(best, 0.0f) : 0.0f;
  const auto score = [&](float x) {
    if (!a.sigmoid) return expf(x - shift);
    return x < 0.0f ? expf(x - shift) / (1.0f + expf(x)) : 1.0f / (1.0f + expf(-x));
  };
  float sum = 1.0f;
  if (weights && (a.normalise || !a.sigmoid)) {
    sum = 0.0f;
#pragma unroll
    for (int i = 0; i < HELD; i++)
      if (a.normalise ? taken >> i & 1 : i * 32 + lane < a.experts) sum += score(logits[i]);
    sum = warp_sum(sum);
  }
  int count = 0;
#pragma unroll
  for (int i = 0; i < HELD; i++) {
    const bool mine = taken >> i & 1;
    const u32 all = __ballot_sync(~0u, mine);
    if (mine) {
      const int at = count + __popc(all & ((1u << lane) - 1)), e = i * 32 + lane;
      chosen[at] = e;
      if (weights) weights[at] = score(logits[i]) / sum * a.scale * (a.expert_scale ? a.expert_scale[e] : 1.0f);
    }
    count += __popc(all);
  }
}

// The same for up to MOST experts, at least 512.
template <int MOST>
DEVICE void choose(const RouteArgs& a, long row, int* chosen, float* weights) {
  if (a.experts <= 128)
    choose_of<4>(a, row, chosen, weights);
  else if (a.experts <= 256)
    choose_of<8>(a, row, chosen, weights);
  else if (a.experts <= 512)
    choose_of<16>(a, row, chosen, weights);
  else
    choose_of<MOST / 32>(a, row, chosen, weights);
}
