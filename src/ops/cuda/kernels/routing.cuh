// The choice of experts in a mixture: one warp for each row of logits.

// Maps logits to integers with the same order. Logits that compare equal get the same key.
DEVICE u32 key_of(float x) {
  const u32 bits = __float_as_uint(x == 0.0f ? 0.0f : x);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// Chooses the top_k largest of up to 32 * KEYS logits, one after the other; among equal ones the lower index.
// -> the lane's chosen experts as bits: bit i is expert 32 i + lane. best: the largest logit.
template <int KEYS>
DEVICE u64 take_largest(const RouteArgs& a, const float logits[KEYS], float& best) {
  const int lane = threadIdx.x % 32;
  u32 keys[KEYS];  // 0: taken, or no expert
#pragma unroll
  for (int i = 0; i < KEYS; i++) keys[i] = i * 32 + lane < a.experts ? key_of(logits[i]) : 0u;
  u64 taken = 0;
#pragma unroll 1
  for (int n = 0; n < a.top_k; n++) {
    u32 most = 0;
#pragma unroll
    for (int i = 0; i < KEYS; i++) most = max(most, keys[i]);
    const u32 largest = __reduce_max_sync(~0u, most);
    u32 own = ~0u;  // the lane's first expert with it
#pragma unroll
    for (int i = KEYS; i-- > 0;)
      if (keys[i] == largest) own = i * 32 + lane;
    const u32 expert = ~__reduce_max_sync(~0u, ~own);
    if (n == 0) best = largest >> 31 ? __uint_as_float(largest & 0x7FFFFFFFu) : __uint_as_float(~largest);
#pragma unroll
    for (int i = 0; i < KEYS; i++)
      if (expert == i * 32 + lane) keys[i] = 0u, taken |= 1ull << i;
  }
  return taken;
}

// Scores of the chosen experts, divided by their sum or by the sum of all experts. All exponentials are
// multiplied by e^-shift, if that does not change the result, so that they do not all become 0.
DEVICE void weigh(const RouteArgs& a, const float* logits, float best, const int* chosen, float* weights) {
  const int lane = threadIdx.x % 32;
  const float shift = !a.sigmoid ? best : a.normalise ? fminf(best, 0.0f) : 0.0f;
  const auto score = [&](int e) {
    const float x = logits[e], up = expf(x - shift);
    return !a.sigmoid ? up : x < 0.0f ? up / (1.0f + expf(x)) : 1.0f / (1.0f + expf(-x));
  };
  float sum = 0.0f;
#pragma unroll 1
  for (int n = lane; n < (a.normalise ? a.top_k : a.sigmoid ? 0 : a.experts); n += 32)
    sum += score(a.normalise ? chosen[n] : n);
  sum = warp_sum(sum);
  if (a.sigmoid && !a.normalise) sum = 1.0f;
#pragma unroll 1
  for (int n = lane; n < a.top_k; n += 32) {
    const int e = chosen[n];
    weights[n] = score(e) / sum * a.scale * (a.expert_scale ? a.expert_scale[e] : 1.0f);
  }
}

// The row's experts in ascending order, and their weights unless `weights` is null.
template <int KEYS>
DEVICE void choose_of(const RouteArgs& a, long row, int* chosen, float* weights) {
  const int lane = threadIdx.x % 32;
  const float* from = a.logits + row * a.experts;
  float logits[KEYS];
  bool nan = false;
#pragma unroll
  for (int i = 0; i < KEYS; i++) {
    logits[i] = i * 32 + lane < a.experts ? from[i * 32 + lane] : 0.0f;
    nan |= logits[i] != logits[i];
  }
  if (__any_sync(~0u, nan)) {  // the weights are NaN, too
    for (int i = lane; i < a.top_k; i += 32) {
      chosen[i] = i;
      if (weights) weights[i] = __uint_as_float(0x7FC00000u);
    }
    return;
  }
  float best = 0.0f;
  const u64 taken = take_largest<KEYS>(a, logits, best);
  int count = 0;
#pragma unroll
  for (int i = 0; i < KEYS; i++) {
    const bool mine = taken >> i & 1;
    const u32 all = __ballot_sync(~0u, mine);
    if (mine) chosen[count + __popc(all & ((1u << lane) - 1))] = i * 32 + lane;
    count += __popc(all);
  }
  __syncwarp();
  if (weights) weigh(a, from, best, chosen, weights);
}
