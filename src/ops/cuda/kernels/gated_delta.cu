// The gated delta rule between its projections and its output norm (ops/gated_delta.h has the formula). Macros:
// DK, DV (dimensions of a head), TAPS (of the convolution).
//
// A block has 32 columns of one value head's state S [DK][DV] in registers: a lane has one column's rows
// 16 i + 4 (lane / 8) + 0..3. Tokens are applied one by one, in one order of operations, whoever asks.
constexpr int kTokens = 16, kRows = DK / 4;

KERNEL __launch_bounds__(128) delta(const __grid_constant__ DeltaArgs a) {
  __shared__ __align__(16) float q[kTokens][DK], k[kTokens][DK], v[kTokens][32];
  __shared__ float decay[kTokens], beta[kTokens];
  wait_for_previous();
  let_next_start();
  const DeltaSpan& s = a.span[blockIdx.z];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, quarter = lane / 8;
  const int head = blockIdx.y, ratio = a.value_heads / a.key_heads, key_head = head / ratio;
  const int column = blockIdx.x * 32 + warp * 8 + lane % 8;
  const int keys = a.key_heads * DK, channels = 2 * keys + a.value_heads * DV;
  const bool owns_keys = blockIdx.x == 0 && head % ratio == 0;
  const bool trial = s.entry >= 0;

  float state[kRows];
  const long place = (long)head * DK * DV + column;
#pragma unroll
  for (int i = 0; i < kRows; i++) state[i] = s.s_in[place + (i / 4 * 16 + quarter * 4 + i % 4) * DV];
  for (int e = 0; e < s.replay_count; e++) {
    const long entry = s.replay[e];
    const float* key = s.from.k + entry * keys + key_head * DK;
    const float d = s.from.delta[entry * a.value_heads * DV + head * DV + column];
    const float g = s.from.decay[entry * a.value_heads + head];
#pragma unroll
    for (int i = 0; i < kRows; i++)
      state[i] = __fmaf_rn(key[i / 4 * 16 + quarter * 4 + i % 4], d, __fmul_rn(g, state[i]));
  }
  if (trial && s.fold)
#pragma unroll
    for (int i = 0; i < kRows; i++) s.s_out[place + (i / 4 * 16 + quarter * 4 + i % 4) * DV] = state[i];

  // Channel c's input `back` rows before the first token.
  const auto before = [&](int back, int c) {
    if (back <= s.replay_count) return s.from.rows[(long)s.replay[s.replay_count - back] * channels + c];
    return s.conv_in[(long)(TAPS - 1 - (back - s.replay_count)) * channels + c];
  };
  const auto input = [&](int t, int c) {
    return t < 0 ? before(-t, c) : a.qkv[(long)(s.row + t) * channels + c];
  };
  // The channels of this block: DK of queries, DK of keys, 32 of values.
  const auto channel = [&](int i) {
    return i < DK ? key_head * DK + i
           : i < 2 * DK ? keys + key_head * DK + i - DK
                        : 2 * keys + head * DV + blockIdx.x * 32 + i - 2 * DK;
  };
  const auto owns = [&](int i) { return i >= 2 * DK || owns_keys; };

  for (int first = 0; first < s.count; first += kTokens) {
    const int tokens = min(kTokens, s.count - first);
    __syncthreads();
    for (int i = threadIdx.x; i < 2 * DK + 32; i += 128) {
      const int c = channel(i);
      float taps[TAPS], x[TAPS];
#pragma unroll
      for (int j = 0; j < TAPS; j++) taps[j] = a.conv_weight[j * channels + c];
#pragma unroll
      for (int j = 1; j < TAPS; j++) x[j] = input(first - TAPS + j, c);
      float rows[kTokens];  // read together: one wait for memory, not one for each
#pragma unroll
      for (int t = 0; t < kTokens; t++)
        rows[t] = t < tokens ? a.qkv[(long)(s.row + first + t) * channels + c] : 0.0f;
#pragma unroll
      for (int t = 0; t < kTokens; t++) {
        if (t >= tokens) break;
#pragma unroll
        for (int j = 1; j < TAPS; j++) x[j - 1] = x[j];
        x[TAPS - 1] = rows[t];
        if (trial && owns(i)) s.to.rows[(long)(s.entry + first + t) * channels + c] = x[TAPS - 1];
        float sum = 0.0f;
#pragma unroll
        for (int j = TAPS - 1; j >= 0; j--) sum = __fmaf_rn(x[j], taps[j], sum);
        sum = silu(sum);
        if (i < DK)
          q[t][i] = sum;
        else if (i < 2 * DK)
          k[t][i - DK] = sum;
        else
          v[t][i - 2 * DK] = sum;
      }
    }
    if (threadIdx.x < tokens) {
      const long at = (long)(s.row + first + threadIdx.x) * a.value_heads + head;
      const float x = a.a[at] + a.dt_bias[head], softplus = x > 20.0f ? x : log1pf(expf(x));
      const float g = expf(-expf(a.a_log[head]) * softplus);
      decay[threadIdx.x] = g;
      beta[threadIdx.x] = sigmoid(a.b[at]);
      if (trial && blockIdx.x == 0) s.to.decay[(long)(s.entry + first + threadIdx.x) * a.value_heads + head] = g;
    }
    __syncthreads();
    for (int t = warp; t < tokens; t += 4) {
      float qq = 0.0f, kk = 0.0f;
      for (int i = lane; i < DK; i += 32) qq += q[t][i] * q[t][i], kk += k[t][i] * k[t][i];
      const float q_factor = rsqrtf(warp_sum(qq) + 1e-6f) * rsqrtf((float)DK), k_factor = rsqrtf(warp_sum(kk) + 1e-6f);
      for (int i = lane; i < DK; i += 32) {
        q[t][i] *= q_factor;
        k[t][i] *= k_factor;
        if (trial && owns_keys) s.to.k[(long)(s.entry + first + t) * keys + key_head * DK + i] = k[t][i];
      }
    }
    __syncthreads();
    for (int t = 0; t < tokens; t++) {
      float4 key[kRows / 4];
      float read[4] = {}, y[4] = {};
#pragma unroll
      for (int i = 0; i < kRows / 4; i++) {
        key[i] = *(const float4*)&k[t][i * 16 + quarter * 4];
        read[0] = __fmaf_rn(key[i].x, state[4 * i], read[0]);
        read[1] = __fmaf_rn(key[i].y, state[4 * i + 1], read[1]);
        read[2] = __fmaf_rn(key[i].z, state[4 * i + 2], read[2]);
        read[3] = __fmaf_rn(key[i].w, state[4 * i + 3], read[3]);
      }
      float sum = (read[0] + read[1]) + (read[2] + read[3]);
      sum += __shfl_xor_sync(~0u, sum, 8);
      sum += __shfl_xor_sync(~0u, sum, 16);
      const float g = decay[t];
      const float d = beta[t] * __fmaf_rn(-g, sum, v[t][warp * 8 + lane % 8]);
#pragma unroll
      for (int i = 0; i < kRows / 4; i++) {
        const float4 query = *(const float4*)&q[t][i * 16 + quarter * 4];
        state[4 * i] = __fmaf_rn(key[i].x, d, __fmul_rn(g, state[4 * i]));
        state[4 * i + 1] = __fmaf_rn(key[i].y, d, __fmul_rn(g, state[4 * i + 1]));
        state[4 * i + 2] = __fmaf_rn(key[i].z, d, __fmul_rn(g, state[4 * i + 2]));
        state[4 * i + 3] = __fmaf_rn(key[i].w, d, __fmul_rn(g, state[4 * i + 3]));
        y[0] = __fmaf_rn(query.x, state[4 * i], y[0]);
        y[1] = __fmaf_rn(query.y, state[4 * i + 1], y[1]);
        y[2] = __fmaf_rn(query.z, state[4 * i + 2], y[2]);
        y[3] = __fmaf_rn(query.w, state[4 * i + 3], y[3]);
      }
      float out = (y[0] + y[1]) + (y[2] + y[3]);
      out += __shfl_xor_sync(~0u, out, 8);
      out += __shfl_xor_sync(~0u, out, 16);
      if (quarter == 0) {
        a.y[(long)(s.row + first + t) * a.value_heads * DV + head * DV + column] = out;
        if (trial)
          s.to.delta[(long)(s.entry + first + t) * a.value_heads * DV + head * DV + column] = d;
      }
    }
  }
  if (!trial)
#pragma unroll
    for (int i = 0; i < kRows; i++) s.s_out[place + (i / 4 * 16 + quarter * 4 + i % 4) * DV] = state[i];
  if (trial && !s.fold) return;
  const int applied = trial ? 0 : s.count;
  for (int i = threadIdx.x; i < 2 * DK + 32; i += 128) {
    if (!owns(i)) continue;
    for (int j = 0; j < TAPS - 1; j++)
      s.conv_out[(long)j * channels + channel(i)] = input(applied - (TAPS - 1) + j, channel(i));
  }
}
