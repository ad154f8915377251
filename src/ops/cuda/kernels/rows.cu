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

// Rows of x, normalised, to f32 and tiles.
KERNEL norm_rows(const __grid_constant__ NormArgs a) {
  __shared__ float shared[32];
  wait_for_previous();
  let_next_start();
  const long row = blockIdx.x;
  const float* x = a.x + row * a.inputs;
  float factor = 1.0f;
  if (a.weight) {
    float sum = 0.0f;
    for (int i = threadIdx.x; i < a.inputs; i += blockDim.x) sum += x[i] * x[i];
    factor = 1.0f / sqrtf(block_sum(sum, shared) / a.inputs + a.eps);
  }
  const int padded = (a.inputs + kTileK - 1) / kTileK * kTileK;
  for (int i = threadIdx.x; i < padded; i += blockDim.x) {
    const float y = i < a.inputs ? x[i] * (a.weight ? factor * a.weight[i] : 1.0f) : 0.0f;
    if (a.tiles) a.tiles[tile_index(row, i, a.row_tiles)] = to_bf16(y);
    if (a.out && i < a.inputs) a.out[row * a.inputs + i] = y;
  }
}

// The gated delta rule's output: each head normalised, times weight and silu(gate); one warp for each head.
KERNEL norm_heads(const __grid_constant__ NormArgs a) {
  wait_for_previous();
  let_next_start();
  const int heads = a.inputs / a.width, lane = threadIdx.x % 32;
  const long unit = (long)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  const long row = unit / heads;
  const int first = unit % heads * a.width;
  if (row >= a.rows) return;
  const float *x = a.x + row * a.inputs + first, *gate = a.gate + row * a.inputs + first;
  float sum = 0.0f;
  for (int i = lane; i < a.width; i += 32) sum += x[i] * x[i];
  const float factor = 1.0f / sqrtf(warp_sum(sum) / a.width + a.eps);
  for (int i = lane; i < a.width; i += 32) {
    const float y = x[i] * factor * a.weight[i] * silu(gate[i]);
    if (a.tiles) a.tiles[tile_index(row, first + i, a.row_tiles)] = to_bf16(y);
    if (a.out) a.out[row * a.inputs + first + i] = y;
  }
}

KERNEL pairs(const __grid_constant__ PairArgs p) {
  wait_for_previous();
  let_next_start();
  const long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.count) return;
  const float a = p.a[i], b = p.b[i % p.b_count];
  p.out[i] = p.op == 0 ? a + b : p.op == 1 ? silu(a) * b : a * sigmoid(b);
}

KERNEL take(const __grid_constant__ TakeArgs a) {
  wait_for_previous();
  let_next_start();
  const float* from = a.x + (long)a.rows[blockIdx.x] * a.width;
  for (int i = threadIdx.x; i < a.width; i += blockDim.x) a.out[(long)blockIdx.x * a.width + i] = from[i];
}

// The first largest element of each row, or -1 if one is not a number or the largest not finite.
KERNEL best(const __grid_constant__ BestArgs a) {
  __shared__ float values[32];
  __shared__ int places[32];
  wait_for_previous();
  let_next_start();
  const float* x = a.x + (long)blockIdx.x * a.width;
  const float infinity = __uint_as_float(0x7F800000u);
  float value = -infinity;
  int place = 0x7FFFFFFF;
  for (int i = threadIdx.x; i < a.width; i += blockDim.x) {
    const float v = x[i] == x[i] ? x[i] : infinity;
    if (v > value || place == 0x7FFFFFFF) value = v, place = i;
  }
  const auto join = [&](float v, int p) {
    if (v > value || (v == value && p < place)) value = v, place = p;
  };
  for (int i = 16; i > 0; i >>= 1) {
    const float v = __shfl_xor_sync(~0u, value, i);
    join(v, __shfl_xor_sync(~0u, place, i));
  }
  if (threadIdx.x % 32 == 0) values[threadIdx.x / 32] = value, places[threadIdx.x / 32] = place;
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (int i = 1; i < (int)blockDim.x / 32; i++) join(values[i], places[i]);
  a.best[blockIdx.x] = value < infinity && value > -infinity ? place : -1;
}
