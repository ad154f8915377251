// Row-wise and element-wise kernels. Included through kernels.inl.

static void rms_norm(const float* x, const float* w, float eps, float* y, int64_t rows, int64_t k) {
  for (int64_t m = 0; m < rows; m++, x += k, y += k) {
    F s[4] = {zero(), zero(), zero(), zero()};
    int64_t i = 0;
    for (; i + 4 * kLanes <= k; i += 4 * kLanes) {
      UNROLL for (int j = 0; j < 4; j++) {
        const F v = load(x + i + j * kLanes);
        s[j] = fma(v, v, s[j]);
      }
    }
    for (; i < k; i += kLanes) {
      const F v = load_upto(x + i, k - i);
      s[0] = fma(v, v, s[0]);
    }
    const float sum = reduce_add(add(add(s[0], s[1]), add(s[2], s[3])));
    const F inverse = splat(1.0f / __builtin_sqrtf(sum / static_cast<float>(k) + eps));
    for (i = 0; i < k; i += kLanes)
      store_upto(y + i, mul(mul(load_upto(x + i, k - i), inverse), load_upto(w + i, k - i)), k - i);
  }
}

// The sum of f(x) over a row, in four lane sums like rms_norm(); missing elements count as f = 0.
template <class Function>
FN float sum_row(const float* x, int64_t k, const Function& f) {
  alignas(64) static const float kIndex[kLanes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  F s[4] = {zero(), zero(), zero(), zero()};
  int64_t i = 0;
  for (; i + 4 * kLanes <= k; i += 4 * kLanes) {
    UNROLL for (int j = 0; j < 4; j++) s[j] = add(s[j], f(load(x + i + j * kLanes)));
  }
  for (; i < k; i += kLanes) {
    const F v = f(load_upto(x + i, k - i));
    s[0] = add(s[0], select_lt(load(kIndex), splat(static_cast<float>(k - i)), v, zero()));
  }
  return reduce_add(add(add(s[0], s[1]), add(s[2], s[3])));
}
static void layer_norm(const float* x, const float* w, const float* b, float eps, float* y, int64_t rows,
                       int64_t k) {
  for (int64_t m = 0; m < rows; m++, x += k, y += k) {
    const float count = static_cast<float>(k);
    const F mean = splat(sum_row(x, k, [](F v) { return v; }) / count);
    const float squares = sum_row(x, k, [mean](F v) { return mul(sub(v, mean), sub(v, mean)); });
    const F inverse = splat(1.0f / __builtin_sqrtf(squares / count + eps));
    for (int64_t i = 0; i < k; i += kLanes) {
      const F n = mul(sub(load_upto(x + i, k - i), mean), inverse);
      store_upto(y + i, fma(n, load_upto(w + i, k - i), load_upto(b + i, k - i)), k - i);
    }
  }
}

static void add_arrays(const float* a, const float* b, float* y, int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes)
    store_upto(y + i, add(load_upto(a + i, count - i), load_upto(b + i, count - i)), count - i);
}

static void add_scaled(const float* x, float scale, float* y, int64_t count) {
  const F factor = splat(scale);
  for (int64_t i = 0; i < count; i += kLanes)
    store_upto(y + i, fma(factor, load_upto(x + i, count - i), load_upto(y + i, count - i)), count - i);
}

static void swiglu(const float* gate, const float* up, float* y, int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes)
    store_upto(y + i, mul(silu(load_upto(gate + i, count - i)), load_upto(up + i, count - i)), count - i);
}
static void geglu(const float* gate, const float* up, float* y, int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes)
    store_upto(y + i, mul(gelu_tanh(load_upto(gate + i, count - i)), load_upto(up + i, count - i)),
               count - i);
}
static void clamped_glu(const float* gate, const float* up, float alpha, float limit, float* y,
                        int64_t count) {
  const F most = splat(limit), least = splat(-limit), factor = splat(-alpha), one = splat(1.0f);
  for (int64_t i = 0; i < count; i += kLanes) {
    const F g = min(most, load_upto(gate + i, count - i));
    const F u = max(least, min(most, load_upto(up + i, count - i)));
    const F glu = div(g, add(one, exp(mul(g, factor))));
    store_upto(y + i, mul(add(u, one), glu), count - i);
  }
}
static void clamped_swiglu(const float* gate, const float* up, float limit, float* y, int64_t count) {
  const F most = splat(limit), least = splat(-limit);
  for (int64_t i = 0; i < count; i += kLanes) {
    const F g = min(most, silu(load_upto(gate + i, count - i)));
    const F u = max(least, min(most, load_upto(up + i, count - i)));
    store_upto(y + i, mul(g, u), count - i);
  }
}
static void gelu_tanh_array(const float* x, float, float* y, int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes)
    store_upto(y + i, gelu_tanh(load_upto(x + i, count - i)), count - i);
}
static void gelu_erf_array(const float* x, float, float* y, int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes)
    store_upto(y + i, gelu_erf(load_upto(x + i, count - i)), count - i);
}
static void relu2_array(const float* x, float, float* y, int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes) {
    const F positive = max(load_upto(x + i, count - i), zero());
    store_upto(y + i, mul(positive, positive), count - i);
  }
}
static void xielu_array(const float* x, float positive, float negative, float linear, float near, float* y,
                        int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes) {
    const F v = load_upto(x + i, count - i), straight = mul(splat(linear), v);
    const F above = fma(mul(splat(positive), v), v, straight);
    const F below = fma(splat(negative), expm1_minus(min(v, splat(near)), v), straight);
    store_upto(y + i, select_lt(zero(), v, above, below), count - i);
  }
}
static void scale_array(const float* x, float factor, float* y, int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes)
    store_upto(y + i, mul(load_upto(x + i, count - i), splat(factor)), count - i);
}
static void soft_cap(const float* x, float cap, float* y, int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes)
    store_upto(y + i, mul(splat(cap), tanh(mul(load_upto(x + i, count - i), splat(1.0f / cap)))), count - i);
}

static void sigmoid_gate(const float* x, const float* gate, float* y, int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes)
    store_upto(y + i, mul(load_upto(x + i, count - i), sigmoid(load_upto(gate + i, count - i))), count - i);
}

static void rope(const RopeTask& t) {
  for (int64_t m = t.row_begin; m < t.row_end; m++) {
    const float *c = t.cosines + m * t.d, *s = t.sines + m * t.d;
    for (int64_t h = 0; h < t.heads; h++) {
      const float* x = t.x + (m * t.heads + h) * t.head_dim;
      float* y = t.y + (m * t.heads + h) * t.head_dim;
      for (int64_t i = 0; i < t.d; i += kLanes) {
        const int64_t left = t.d - i;
        const F x1 = load_upto(x + i, left), x2 = load_upto(x + t.d + i, left);
        const F cs = load_upto(c + i, left), sn = load_upto(s + i, left);
        store_upto(y + i, sub(mul(x1, cs), mul(x2, sn)), left);
        store_upto(y + t.d + i, add(mul(x2, cs), mul(x1, sn)), left);
      }
      for (int64_t i = 2 * t.d; i < t.head_dim; i += kLanes)
        store_upto(y + i, load_upto(x + i, t.head_dim - i), t.head_dim - i);
    }
  }
}

// The outputs of one panel, from `first` on, of Rows rows from `row` on: a lane is an output.
template <int Rows>
FN void low_rank_panel(const LowRankTask& t, int64_t first, int64_t row) {
  const int64_t lanes = t.out - first < kLanes ? t.out - first : kLanes;
  const float *up = t.up + first * t.rank, *z = t.z + row * t.rank;
  F acc[Rows];
  UNROLL for (int i = 0; i < Rows; i++) acc[i] = zero();
  const auto add_column = [&](F column, int64_t r) {
    UNROLL for (int i = 0; i < Rows; i++) acc[i] = fma(column, splat(z[i * t.rank + r]), acc[i]);
  };
  int64_t r = 0;
  for (; lanes == kLanes && r + 4 <= t.rank; r += 4) {
    F columns[4];
    load_columns(up + r, t.rank, columns);
    UNROLL for (int j = 0; j < 4; j++) add_column(columns[j], r + j);
  }
  for (; r < t.rank; r++) {
    float column[kLanes] = {};
    for (int64_t lane = 0; lane < lanes; lane++) column[lane] = up[lane * t.rank + r];
    add_column(load(column), r);
  }
  UNROLL for (int i = 0; i < Rows; i++) {
    float* y = t.y + (row + i) * t.out + first;
    store_upto(y, fma(splat(t.scale), acc[i], load_upto(y, lanes)), lanes);
  }
}
static void add_low_rank(const LowRankTask& t) {
  constexpr int kRows = 4;  // share a panel's columns
  for (int64_t begin = t.panel_begin; begin < t.panel_end; begin += kLowRankPanels) {
    const int64_t end = begin + kLowRankPanels < t.panel_end ? begin + kLowRankPanels : t.panel_end;
    for (int64_t row = 0; row < t.rows;) {
      const bool together = row + kRows <= t.rows;
      for (int64_t panel = begin; panel < end; panel++)
        together ? low_rank_panel<kRows>(t, panel * kLanes, row) : low_rank_panel<1>(t, panel * kLanes, row);
      row += together ? kRows : 1;
    }
  }
}

static void math(int which, const float* x, float* y, int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes) {
    const F v = load_upto(x + i, count - i);
    store_upto(y + i,
               which == 0   ? exp(v)
               : which == 1 ? sigmoid(v)
               : which == 2 ? silu(v)
               : which == 3 ? softplus(v)
               : which == 4 ? exp2(v)
               : which == 5 ? tanh(v)
               : which == 6 ? gelu_tanh(v)
                            : gelu_erf(v),
               count - i);
  }
}

FN F saturate_f16(F v) {
  return max(min(v, splat(65504.0f)), splat(-65504.0f));
}

static void to_f16(const float* x, uint16_t* y, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store_f16(y + i, saturate_f16(load(x + i)));
  if (i == count) return;
  uint16_t t[kLanes];
  store_f16(t, saturate_f16(load_part(x + i, count - i)));
  for (int64_t j = 0; i + j < count; j++) y[i + j] = t[j];
}

static void read_bytes(const uint8_t* from, int64_t bytes) {
  B all = load_bytes(from);
  for (int64_t i = 0; i < bytes; i += 64) {
    __builtin_prefetch(from + i + 4096);
    all = bit_or(all, load_bytes(from + i));
  }
  volatile int32_t sink = reduce_add(as_int(all));
  (void)sink;
}

static double peak_int8(int64_t rounds) {
  alignas(64) uint8_t codes[512];
  alignas(64) int8_t x[64];
  for (int i = 0; i < 512; i++) codes[i] = static_cast<uint8_t>(i % 16);
  for (int i = 0; i < 64; i++) x[i] = static_cast<int8_t>(i - 32);
  volatile int32_t sink = 0;
  constexpr int kSums = kNatives == 1 ? 16 : 4;
  const B q = load_bytes(codes);
#if !defined(ANABRANCH_SIMD_PORTABLE) && defined(__x86_64__) && !defined(__AVX512VNNI__)
  // Like the micro-kernel: a multiply into int16 and an add for each quad.
  I run[kSums];
  for (int i = 0; i < kSums; i++) run[i] = splat_int(i);
  for (int64_t r = 0; r < rounds; r++) {
    B xs = splat_quad(x + 4 * (r & 7));
    UNROLL for (int i = 0; i < kSums; i++) {
      UNROLL for (int n = 0; n < kNatives; n++) run[i].v[n] =
          n16_add(run[i].v[n], n16_maddubs(q.v[n], xs.v[n]));
    }
  }
  I all = splat_int(0);
  for (int i = 0; i < kSums; i++) all = add(all, run[i]);
  sink = reduce_add(all);
#else
  I sum[kSums];
  for (int i = 0; i < kSums; i++) sum[i] = splat_int(i);
  for (int64_t r = 0; r < rounds; r++) {
    B xs = splat_quad(x + 4 * (r & 7));
    UNROLL for (int i = 0; i < kSums; i++) {
      UNROLL for (int n = 0; n < kNatives; n++) sum[i].v[n] = ni_dot(sum[i].v[n], q.v[n], xs.v[n]);
    }
  }
  I all = splat_int(0);
  for (int i = 0; i < kSums; i++) all = add(all, sum[i]);
  sink = reduce_add(all);
#endif
  (void)sink;
  return 128.0 * kSums * static_cast<double>(rounds);
}

static double peak_f32(int64_t rounds) {
  constexpr int kSums = kNatives == 1 ? 16 : 6;
  F sum[kSums];
  const F w = splat(1.0f + 1.0f / 1024);
  for (int i = 0; i < kSums; i++) sum[i] = splat(static_cast<float>(i));
  const F x = splat(0.5f);
  for (int64_t r = 0; r < rounds; r++) {
    UNROLL for (int i = 0; i < kSums; i++) sum[i] = fma(sum[i], x, w);
  }
  F all = zero();
  for (int i = 0; i < kSums; i++) all = add(all, sum[i]);
  volatile float sink = reduce_add(all);
  (void)sink;
  return 32.0 * kSums * static_cast<double>(rounds);
}
