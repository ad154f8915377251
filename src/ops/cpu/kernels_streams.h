// Kernels of the residual stream as several streams (ops/streams.h) and of the index of sparse attention
// (ops/indexed_attention.h). Included through kernels.inl.

// The product of two rows, in four lane sums like rms_norm().
FN float dot_rows(const float* a, const float* b, int64_t k) {
  F s[4] = {zero(), zero(), zero(), zero()};
  int64_t i = 0;
  for (; i + 4 * kLanes <= k; i += 4 * kLanes) {
    UNROLL for (int j = 0; j < 4; j++) s[j] = fma(load(a + i + j * kLanes), load(b + i + j * kLanes), s[j]);
  }
  for (; i < k; i += kLanes) s[0] = fma(load_upto(a + i, k - i), load_upto(b + i, k - i), s[0]);
  return reduce_add(add(add(s[0], s[1]), add(s[2], s[3])));
}

static void mix_streams(const float* x, const float* gates, float* y, int64_t streams, int64_t width) {
  const F share = splat(1.0f / static_cast<float>(streams));
  for (int64_t i = 0; i < width; i += kLanes) {
    F sum = zero();
    for (int64_t s = 0; s < streams; s++)
      sum = fma(load_upto(x + s * width + i, width - i), sigmoid(load_upto(gates + s * width + i, width - i)),
                sum);
    store_upto(y + i, mul(sum, share), width - i);
  }
}

static void add_to_streams(const float* x, const float* y, const float* weights, float* out, int64_t streams,
                           int64_t width) {
  for (int64_t s = 0; s < streams; s++, x += width, out += width) {
    const F weight = mul(splat(2.0f), sigmoid(splat(weights[s] / static_cast<float>(streams))));
    for (int64_t i = 0; i < width; i += kLanes)
      store_upto(out + i, fma(weight, load_upto(y + i, width - i), load_upto(x + i, width - i)), width - i);
  }
}

static void gate_streams(const float* keys, const float* queries, const float* values, float* out,
                         int64_t streams, int64_t width) {
  const float root = __builtin_sqrtf(static_cast<float>(width));
  for (int64_t s = 0; s < streams; s++, keys += width, queries += width, out += width) {
    const float d = dot_rows(keys, queries, width) / root, size = d < 0 ? -d : d;
    const float most = __builtin_sqrtf(size > 1e-6f ? size : 1e-6f);
    const F gate = sigmoid(splat(d > 0 ? most : d < 0 ? -most : 0 * d));
    for (int64_t i = 0; i < width; i += kLanes)
      store_upto(out + i, mul(gate, load_upto(values + i, width - i)), width - i);
  }
}

// Adds a block's positions [first, last) to `sum` [d]. tiles: [16][d][16 positions].
template <class T>
FN void add_positions(const T* tiles, int64_t d, int64_t first, int64_t last, float* sum) {
  alignas(64) static const float kIndex[kLanes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  for (int64_t tile = first / kLanes; tile * kLanes < last; tile++) {
    const F low = splat(static_cast<float>(first - tile * kLanes));
    const F high = splat(static_cast<float>(last - tile * kLanes));
    for (int64_t i = 0; i < d; i++) {
      const F row = load_value(tiles + (tile * d + i) * kLanes);
      const F up_to = select_lt(load(kIndex), high, row, zero());
      sum[i] += reduce_add(select_lt(load(kIndex), low, zero(), up_to));
    }
  }
}
static void add_keys(const void* block, bool half, int64_t d, int64_t first, int64_t last, float* sum) {
  if (half)
    add_positions(static_cast<const uint16_t*>(block), d, first, last, sum);
  else
    add_positions(static_cast<const float*>(block), d, first, last, sum);
}

static void index_scores(const float* q, const float* keys, float* scores, int64_t heads, int64_t d,
                         int64_t count) {
  const float root = __builtin_sqrtf(static_cast<float>(d));
  for (int64_t b = 0; b < count; b++, keys += d) {
    float sum = 0;
    for (int64_t h = 0; h < heads; h++) {
      const float score = dot_rows(q + h * d, keys, d);
      sum += score > 0 ? score : 0;
    }
    scores[b] = sum / root;
  }
}
