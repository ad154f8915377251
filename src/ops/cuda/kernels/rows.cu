// Kernels on rows of activations.
DEVICE float block_sum(float x, float* shared) {
  const int warps = blockDim.x / 32;
  x = warp_sum(x);
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  float sum = 0.0f;
  for (int i = 0; i < warps; i++) sum += shared[i];
  return sum;
}

// Rows of x, normalised (or unchanged if there is no weight), to f32 and tiles. A thread loads kHeld numbers
// before it uses them.
constexpr int kHeld = 16;
KERNEL norm_rows(const __grid_constant__ NormArgs a) {
  __shared__ float shared[32];
  const long row = blockIdx.x;
  const int threads = blockDim.x, span = kHeld * threads, padded = (a.inputs + kTileK - 1) / kTileK * kTileK;
  float x[kHeld], weight[kHeld];
  const auto read = [&](const float* from, int first, float* to) {
#pragma unroll
    for (int i = 0; i < kHeld; i++) {
      const int at = first + i * threads;
      to[i] = from && at < a.inputs ? from[at] : 1.0f;
    }
  };
  read(a.weight, threadIdx.x, weight);
  wait_for_previous();
  let_next_start();
  const float* from = a.x + row * a.inputs;
  read(from, threadIdx.x, x);
  float factor = 1.0f;
  if (a.weight) {
    float sum = 0.0f;
    for (int first = threadIdx.x; first < a.inputs; first += span) {
      if (first >= span) read(from, first, x);
#pragma unroll
      for (int i = 0; i < kHeld; i++)
        if (first + i * threads < a.inputs) sum = __fmaf_rn(x[i], x[i], sum);
    }
    factor = row_factor(block_sum(sum, shared), a.inputs, a.eps);
  }
  for (int first = threadIdx.x; first < padded; first += span) {
    if (a.inputs > span) read(from, first, x), read(a.weight, first, weight);
#pragma unroll
    for (int i = 0; i < kHeld; i++) {
      const int at = first + i * threads;
      if (at >= padded) break;
      const float y = at < a.inputs ? row_norm(x[i], factor, weight[i]) : 0.0f;
      if (a.tiles) a.tiles[tile_index(row, at, a.tiles_rows)] = to_bf16(y);
      if (a.lanes) a.lanes[lane_index(row, at, a.rows)] = to_bf16(y);
      if (a.out && at < a.inputs) a.out[row * a.inputs + at] = y;
    }
  }
}

// The sum of f(x) over a row, computed by a block.
template <class Function>
DEVICE float sum_row(const float* x, int inputs, float* shared, const Function& f) {
  float sum = 0.0f;
  for (int i = threadIdx.x; i < inputs; i += blockDim.x) sum += f(x[i]);
  return block_sum(sum, shared);
}
KERNEL layer_norm(const __grid_constant__ LayerNormArgs a) {
  __shared__ float shared[32];
  wait_for_previous();
  let_next_start();
  const float* x = a.x + (long)blockIdx.x * a.inputs;
  float* out = a.out + (long)blockIdx.x * a.inputs;
  const float mean = sum_row(x, a.inputs, shared, [](float v) { return v; }) / a.inputs;
  const float squares =
      sum_row(x, a.inputs, shared, [mean](float v) { return __fmul_rn(v - mean, v - mean); });
  const float factor = row_factor(squares, a.inputs, a.eps);
  for (int i = threadIdx.x; i < a.inputs; i += blockDim.x)
    out[i] = __fmaf_rn(__fmul_rn(x[i] - mean, factor), a.weight[i], a.bias[i]);
}

// The gated delta rule's output: each head normalised, times weight and output_gate(); one warp for each head.
KERNEL norm_heads(const __grid_constant__ NormArgs a) {
  constexpr int kEach = 4;  // numbers that a lane loads before it uses them
  const int heads = a.inputs / a.width, lane = threadIdx.x % 32;
  const long unit = (long)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  const long row = unit / heads;
  const int first = unit % heads * a.width;
  if (row >= a.rows) return;
  const float *from = a.x + row * a.inputs + first, *gates = a.gate + row * a.inputs + first;
  float x[kEach], gate[kEach], weight[kEach];
  const auto read = [&](const float* numbers, int at, float* to) {
#pragma unroll
    for (int i = 0; i < kEach; i++) to[i] = at + i * 32 < a.width ? numbers[at + i * 32] : 0.0f;
  };
  read(a.weight, lane, weight);
  wait_for_previous();
  let_next_start();
  read(from, lane, x);
  read(gates, lane, gate);
  float sum = 0.0f;
  for (int at = lane; at < a.width; at += 32 * kEach) {
    if (at >= 32 * kEach) read(from, at, x);
#pragma unroll
    for (int i = 0; i < kEach; i++) sum = __fmaf_rn(x[i], x[i], sum);
  }
  const float factor = head_factor(sum, a.width, a.eps);
  for (int at = lane; at < a.width; at += 32 * kEach) {
    if (a.width > 32 * kEach) read(from, at, x), read(gates, at, gate), read(a.weight, at, weight);
#pragma unroll
    for (int i = 0; i < kEach; i++) {
      const int own = at + i * 32;
      if (own >= a.width) break;
      const float y = head_norm(x[i], factor, weight[i], output_gate(gate[i], a.sigmoid_gate));
      if (a.tiles) a.tiles[tile_index(row, first + own, a.tiles_rows)] = to_bf16(y);
      if (a.out) a.out[row * a.inputs + first + own] = y;
    }
  }
}

// A recurrence's output whose norm is over groups of heads (or missing): a block for each group of a row.
KERNEL norm_groups(const __grid_constant__ NormArgs a) {
  __shared__ float shared[32];
  wait_for_previous();
  let_next_start();
  const int groups = a.inputs / a.width, first = blockIdx.x % groups * a.width;
  const long row = blockIdx.x / groups, begin = row * a.inputs + first;
  const float *x = a.x + begin, *gates = a.gate + begin;
  const auto gated = [&](int i) {
    return a.gate_first ? __fmul_rn(x[i], output_gate(gates[i], a.sigmoid_gate)) : x[i];
  };
  float factor = 1.0f;
  if (a.weight) {
    float sum = 0.0f;
    for (int i = threadIdx.x; i < a.width; i += blockDim.x) {
      const float y = gated(i);
      sum = __fmaf_rn(y, y, sum);
    }
    factor = row_factor(block_sum(sum, shared), a.width, a.eps);
  }
  for (int i = threadIdx.x; i < a.width; i += blockDim.x) {
    float y = gated(i);
    if (a.weight) y = __fmul_rn(__fmul_rn(y, factor), a.weight[first + i]);
    if (!a.gate_first) y = __fmul_rn(y, output_gate(gates[i], a.sigmoid_gate));
    if (a.tiles) a.tiles[tile_index(row, first + i, a.tiles_rows)] = to_bf16(y);
    if (a.out) a.out[begin + i] = y;
  }
}

DEVICE float xielu(const PairArgs& p, float x) {
  const float positive = p.parameter, negative = p.more[0], linear = p.more[1], near = p.more[2];
  if (x > 0.0f) return positive * x * x + linear * x;
  return (expm1f(fminf(x, near)) - x) * negative + linear * x;
}
// Not fminf() and fmaxf(), which turn what is no number into a limit.
DEVICE float at_most(float x, float limit) { return x > limit ? limit : x; }
DEVICE float clamped(float x, float limit) { return x < -limit ? -limit : at_most(x, limit); }
DEVICE float clamped_glu(float gate, float up, float alpha, float limit) {
  gate = at_most(gate, limit);
  return gate * sigmoid(alpha * gate) * (clamped(up, limit) + 1.0f);
}
DEVICE float clamped_silu(float gate, float up, float limit) { return at_most(silu(gate), limit) * clamped(up, limit); }
KERNEL pairs(const __grid_constant__ PairArgs p) {
  wait_for_previous();
  let_next_start();
  const long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.count) return;
  const float a = p.a[i], b = p.b[i % p.b_count];
  p.out[i] = p.op == kAdd           ? a + b
             : p.op == kSwiGlu      ? silu(a) * b
             : p.op == kGeGlu       ? gelu_tanh(a) * b
             : p.op == kSigmoidGate ? a * sigmoid(b)
             : p.op == kScale       ? p.parameter * a
             : p.op == kGeluTanh    ? gelu_tanh(a)
             : p.op == kGeluErf     ? 0.5f * a * (1.0f + erff(0.70710678f * a))
             : p.op == kRelu2       ? fmaxf(a, 0.0f) * fmaxf(a, 0.0f)
             : p.op == kXielu       ? xielu(p, a)
             : p.op == kClampedGlu  ? clamped_glu(a, b, p.parameter, p.more[0])
             : p.op == kClampedSilu ? clamped_silu(a, b, p.more[0])
                                    : p.parameter * tanhf(a / p.parameter);
}

KERNEL heads(const __grid_constant__ HeadArgs p) {
  wait_for_previous();
  let_next_start();
  const long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.count) return;
  const long head = i / p.width, at = i % p.width;
  if (p.op == kJoinHeads) {
    p.out[i] = at < p.a_width ? p.a[head * p.a_width + at] : p.b[head * p.b_width + at - p.a_width];
  } else if (p.op == kCutHeads) {
    p.out[i] = p.a[head * p.a_width + at];
  } else {
    const float gate = p.b[head];
    p.out[i] = p.a[i] * (p.op == kSigmoidHeads ? sigmoid(gate) : gate > 20.0f ? gate : log1pf(expf(gate)));
  }
}

KERNEL take(const __grid_constant__ TakeArgs a) {
  wait_for_previous();
  let_next_start();
  const float* from = a.x + (long)a.rows[blockIdx.x] * a.width;
  for (int i = threadIdx.x; i < a.width; i += blockDim.x) a.out[(long)blockIdx.x * a.width + i] = from[i];
}
