// The choice of experts in a mixture: one warp for each row of logits.

// Maps logits to integers with the same order. Logits that compare equal get the same key.
DEVICE u32 key_of(float x) {
  const u32 bits = __float_as_uint(x == 0.0f ? 0.0f : x);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

DEVICE float value_of(u32 key) { return __uint_as_float(key >> 31 ? key & 0x7FFFFFFFu : ~key); }

// Chooses the top_k largest of up to 32 * KEYS values, one after the other; among equal ones the lower index.
// -> the lane's chosen experts as bits: bit i is expert 32 i + lane. best: the largest value.
template <int KEYS>
DEVICE u64 take_largest(const RouteArgs& a, const float values[KEYS], float& best) {
  const int lane = threadIdx.x % 32;
  u32 keys[KEYS];  // 0: taken, or no expert
#pragma unroll
  for (int i = 0; i < KEYS; i++) keys[i] = i * 32 + lane < a.experts ? key_of(values[i]) : 0u;
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
    if (n == 0) best = value_of(largest);
#pragma unroll
    for (int i = 0; i < KEYS; i++)
      if (expert == i * 32 + lane) keys[i] = 0u, taken |= 1ull << i;
  }
  return taken;
}

DEVICE float sigmoid_of(float x, float up) { return x < 0.0f ? up / (1.0f + expf(x)) : 1.0f / (1.0f + expf(-x)); }

// Replaces logits by scores and biases, by which experts are then chosen. -> the largest logit.
template <int KEYS>
DEVICE float use_scores(const RouteArgs& a, float values[KEYS]) {
  const int lane = threadIdx.x % 32;
  u32 most = 0;
#pragma unroll
  for (int i = 0; i < KEYS; i++)
    if (i * 32 + lane < a.experts) most = max(most, key_of(values[i]));
  const float best = value_of(__reduce_max_sync(~0u, most));
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < KEYS; i++)
    if (!a.sigmoid && i * 32 + lane < a.experts) sum += expf(values[i] - best);
  sum = warp_sum(sum);
#pragma unroll
  for (int i = 0; i < KEYS; i++) {
    const int e = i * 32 + lane;
    if (e >= a.experts) continue;
    const float x = values[i];
    values[i] = (a.sigmoid ? sigmoid_of(x, expf(x)) : expf(x - best) / sum) + (a.choice_bias ? a.choice_bias[e] : 0.0f);
  }
  return best;
}

// Makes the values of all groups but the best ones so small that they are not chosen. Lane g has the sum of the
// two largest values of group g, or the largest one.
template <int KEYS>
DEVICE void keep_groups(const RouteArgs& a, float values[KEYS]) {
  const int lane = threadIdx.x % 32, size = a.experts / a.groups;
  float own = 0.0f;
#pragma unroll 1
  for (int g = 0; g < a.groups; g++) {
    u32 first = 0, second = 0;  // of this lane
#pragma unroll
    for (int i = 0; i < KEYS; i++) {
      const int e = i * 32 + lane;
      const u32 key = e >= g * size && e < (g + 1) * size ? key_of(values[i]) : 0u;
      second = max(second, min(first, key)), first = max(first, key);
    }
    const u32 largest = __reduce_max_sync(~0u, first), holders = __ballot_sync(~0u, first == largest);
    const u32 next = __reduce_max_sync(~0u, lane == __ffs(holders) - 1 ? second : first);
    if (lane == g) own = value_of(largest) + (a.best_of_group ? 0.0f : value_of(next));
  }
  int better = 0;
  for (int g = 0; g < a.groups; g++) {
    const float other = __shfl_sync(~0u, own, g);
    better += other > own || (other == own && g < lane);
  }
  const u32 kept = __ballot_sync(~0u, lane < a.groups && better < a.top_groups);
#pragma unroll
  for (int i = 0; i < KEYS; i++)
    if (i * 32 + lane < a.experts && !(kept >> ((i * 32 + lane) / size) & 1)) values[i] = __uint_as_float(0xFF800000u);
}

// Scores of the chosen experts, divided by their sum or by the sum of all experts. All exponentials are
// multiplied by e^-shift, if that does not change the result, so that they do not all become 0.
DEVICE void weigh(const RouteArgs& a, const float* logits, float best, const int* chosen, float* weights) {
  const int lane = threadIdx.x % 32;
  const bool bounded = a.normalise && (a.least_sum > 0.0f || a.added_sum > 0.0f);
  const float shift = !a.sigmoid ? best : a.normalise && !bounded ? fminf(best, 0.0f) : 0.0f;
  const auto score = [&](int e) {
    const float x = logits[e], up = expf(x - shift);
    return a.sigmoid ? sigmoid_of(x, up) : up;
  };
  const auto sum_of = [&](int count, bool of_chosen) {
    float sum = 0.0f;
#pragma unroll 1
    for (int n = lane; n < count; n += 32) sum += score(of_chosen ? chosen[n] : n);
    return warp_sum(sum);
  };
  const float all = a.sigmoid || (a.normalise && !bounded) ? 1.0f : sum_of(a.experts, false);
  float sum = a.normalise ? sum_of(a.top_k, true) : all;
  if (bounded) sum = all * (fmaxf(sum / all, a.least_sum) + a.added_sum);
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
  const bool scored = a.choice_bias || a.groups > 1;
  float values[KEYS], best_logit = 0.0f;
#pragma unroll
  for (int i = 0; i < KEYS; i++) values[i] = i * 32 + lane < a.experts ? from[i * 32 + lane] : 0.0f;
  if (scored) best_logit = use_scores<KEYS>(a, values);
  bool nan = false;
#pragma unroll
  for (int i = 0; i < KEYS; i++) nan |= values[i] != values[i];
  if (__any_sync(~0u, nan)) {  // the weights are NaN, too
    for (int i = lane; i < a.top_k; i += 32) {
      chosen[i] = i;
      if (weights) weights[i] = __uint_as_float(0x7FC00000u);
    }
    return;
  }
  if (a.groups > 1) keep_groups<KEYS>(a, values);
  float best = 0.0f;
  const u64 taken = take_largest<KEYS>(a, values, best);
  if (scored) best = best_logit;
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
