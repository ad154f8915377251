// Products with fp32 activations (kernels_linear.h states the formula). Included through kernels.inl.
//
// Codes are converted to floats 32 inputs at a time (or a whole panel at a time, if many tiles read it);
// dense values are converted when they are loaded.

struct Half {
  uint16_t bits;
};
struct Brain {
  uint16_t bits;
};
struct E4m3 {
  uint8_t bits;
};
FN F load_weight(const float* p) {
  return load(p);
}
FN F load_weight(const Half* p) {
  return load_f16(reinterpret_cast<const uint16_t*>(p));
}
FN F load_weight(const Brain* p) {
  return load_bf16(reinterpret_cast<const uint16_t*>(p));
}
FN F load_weight(const E4m3* p) {
  return load_e4m3(reinterpret_cast<const uint8_t*>(p));
}

// Byte J of each lane.
template <int J>
FN F byte_value(B codes) {
  return to_float(bit_and(shift_right<8 * J>(as_int(codes)), splat_int(255)));
}
template <int Bits, int... J>
FN void unpack_values(Sequence<J...>, const uint8_t* block, float* out) {
  (store(out + J * kLanes, byte_value<J % 4>(quad_codes<Bits, J / 4>(block))), ...);
}
template <int... J>
FN void look_up_values(Sequence<J...>, const Table& table, const uint8_t* block, float* out) {
  (store(out + J * kLanes,
         sub(byte_value<J % 4>(look_up(table, quad_codes<4, J / 4>(block))), splat(128.0f))),
   ...);
}

// Unpacks E4M3 numbers, stored as [32][16].
static void unpack_e4m3(bool has_nan, const uint8_t* block, float* out) {
  for (int i = 0; i < 32 * kLanes; i += kLanes) {
    F v = load_e4m3(block + i);
    if (has_nan) v = select_lt(abs(v), splat(480.0f), v, splat(__builtin_nanf("")));
    store(out + i, v);
  }
}
// Values of the codes of a 32-block as f32 [32][16].
static void unpack_codes(const PackedMatrix& w, const uint8_t* block, float* out) {
  if (w.kind == PackedMatrix::fp8) return unpack_e4m3(w.has_nan, block, out);
  if (w.kind == PackedMatrix::table)
    return look_up_values(Range<0, 32>(), load_table(w.values, 0), block, out);
  switch (w.bits) {
    case 2:
      return unpack_values<2>(Range<0, 32>(), block, out);
    case 3:
      return unpack_values<3>(Range<0, 32>(), block, out);
    case 4:
      return unpack_values<4>(Range<0, 32>(), block, out);
    case 5:
      return unpack_values<5>(Range<0, 32>(), block, out);
    case 6:
      return unpack_values<6>(Range<0, 32>(), block, out);
    case 8:
      return unpack_values<8>(Range<0, 32>(), block, out);
  }
}

// The block of 32 inputs from k on.
FN const uint8_t* codes_at(const PackedMatrix& w, const uint8_t* panel, int64_t k) {
  return panel + k / w.record * w.record_bytes + k % w.record / 32 * 64 * w.bits;
}

// s += w x for `count` inputs, in order. values[p]: [count][16]; x: [count][MR].
template <class T, int MR, int NP>
FN void fma_inputs(const T* const (&values)[NP], const float* x, int64_t count, F (&s)[NP][MR]) {
  for (int64_t k = 0; k < count; k++) {
    F v[NP];
    UNROLL for (int p = 0; p < NP; p++) v[p] = load_weight(values[p] + k * kLanes);
    UNROLL for (int i = 0; i < MR; i++) {
      const F xi = splat(x[k * MR + i]);
      UNROLL for (int p = 0; p < NP; p++) s[p][i] = fma(v[p], xi, s[p][i]);
    }
  }
}
template <int MR, int NP>
FN void clear(F (&s)[NP][MR]) {
  UNROLL for (int p = 0; p < NP; p++) UNROLL for (int i = 0; i < MR; i++) s[p][i] = zero();
}

template <class T, int MR, int NP>
static void dense_tile(const LinearTask& t, int64_t tile, int64_t panel, const uint8_t* const* packed) {
  const Activations& a = *t.input;
  const float* x = a.x + tile * a.tile * a.padded_cols;
  const T* values[NP];
  for (int p = 0; p < NP; p++) values[p] = reinterpret_cast<const T*>(packed[p]);
  F acc[NP][MR];
  clear<MR, NP>(acc);
  for (int64_t k = 0; k < a.padded_cols; k += 32, x += 32 * MR) {
    UNROLL for (int p = 0; p < NP; p++) {
      UNROLL for (int i = 0; i < 8 * static_cast<int>(sizeof(T)); i++)
          __builtin_prefetch(reinterpret_cast<const uint8_t*>(values[p]) + kPrefetch + 64 * i);
    }
    fma_inputs<T, MR, NP>(values, x, 32, acc);
    UNROLL for (int p = 0; p < NP; p++) values[p] += 32 * kLanes;
  }
  store_tile<MR, NP>(t, tile, panel, acc);
}

// Computes one tile of NP panels of a coded matrix. values: the decoded values of each panel as f32
// [padded_cols][16], or null to decode them here.
template <int MR, int NP>
static void coded_tile(const LinearTask& t, int64_t tile, int64_t panel, const uint8_t* const* packed,
                       const float* const* values) {
  const PackedMatrix& w = *t.weight;
  const Activations& a = *t.input;
  const float* x = a.x + tile * a.tile * a.padded_cols;
  const float* x_sum = a.sum + tile * a.tile * w.groups();
  const int64_t step = w.group < 32 ? 16 : 32;
  const bool affine = w.kind == PackedMatrix::affine;
  alignas(64) float block[NP][32 * kLanes];
  F acc[NP][MR], s[NP][MR];
  clear<MR, NP>(acc);
  clear<MR, NP>(s);
  for (int64_t k = 0; k < a.padded_cols; k += step, x += step * MR) {
    const float* at[NP];
    for (int p = 0; p < NP; p++) {
      if (!values && k % 32 == 0) {
        const uint8_t* codes = codes_at(w, packed[p], k);
        for (int i = 0; i < w.bits; i++) __builtin_prefetch(codes + kPrefetch + 64 * i);
        unpack_codes(w, codes, block[p]);
      }
      at[p] = values ? values[p] + k * kLanes : block[p] + k % 32 * kLanes;
    }
    fma_inputs<float, MR, NP>(at, x, step, s);
    if ((k + step) % w.group != 0) continue;
    UNROLL for (int p = 0; p < NP; p++) {
      const uint8_t* record = packed[p] + k / w.record * w.record_bytes;
      const int64_t group = k % w.record / w.group;
      const ScaleBias sb = scale_bias(w, record, group);
      UNROLL for (int i = 0; i < MR; i++) {
        acc[p][i] = fma(s[p][i], sb.scale, acc[p][i]);
        if (affine) acc[p][i] = fma(sb.bias, splat(x_sum[i]), acc[p][i]);
      }
    }
    clear<MR, NP>(s);
    x_sum += MR;
  }
  store_tile<MR, NP>(t, tile, panel, acc);
}

// coded_tile() for E4M3 codes without NaN, which are converted when they are loaded.
template <int MR, int NP>
static void e4m3_tile(const LinearTask& t, int64_t tile, int64_t panel, const uint8_t* const* packed) {
  const PackedMatrix& w = *t.weight;
  const Activations& a = *t.input;
  const float* x = a.x + tile * a.tile * a.padded_cols;
  const uint8_t* record[NP];
  const E4m3* codes[NP];
  for (int p = 0; p < NP; p++) record[p] = packed[p];
  F acc[NP][MR], s[NP][MR];
  clear<MR, NP>(acc);
  for (int64_t r = 0; r < w.records(); r++) {
    for (int p = 0; p < NP; p++) codes[p] = reinterpret_cast<const E4m3*>(record[p]);
    for (int64_t g = 0; g < w.record / w.group; g++) {
      clear<MR, NP>(s);
      for (int64_t k = 0; k < w.group; k += 32, x += 32 * MR) {
        UNROLL for (int p = 0; p < NP; p++) {
          UNROLL for (int i = 0; i < 8; i++)
              __builtin_prefetch(reinterpret_cast<const uint8_t*>(codes[p]) + kPrefetch + 64 * i);
        }
        fma_inputs<E4m3, MR, NP>(codes, x, 32, s);
        UNROLL for (int p = 0; p < NP; p++) codes[p] += 32 * kLanes;
      }
      UNROLL for (int p = 0; p < NP; p++) {
        const F scale = load_scale(w, record[p], g).scale;
        UNROLL for (int i = 0; i < MR; i++) acc[p][i] = fma(s[p][i], scale, acc[p][i]);
      }
    }
    UNROLL for (int p = 0; p < NP; p++) record[p] += w.record_bytes;
  }
  store_tile<MR, NP>(t, tile, panel, acc);
}

template <int MR, int NP>
FN void f32_tile(const LinearTask& t, int64_t tile, int64_t panel) {
  const PackedMatrix& w = *t.weight;
  const uint8_t* packed[NP];
  for (int p = 0; p < NP; p++) packed[p] = w.data + (panel + p) * w.panel_bytes;
  switch (w.kind) {
    case PackedMatrix::fp8:
      if (!w.has_nan) return e4m3_tile<MR, NP>(t, tile, panel, packed);
      [[fallthrough]];
    case PackedMatrix::affine:
    case PackedMatrix::table:
      return coded_tile<MR, NP>(t, tile, panel, packed, nullptr);
    case PackedMatrix::f32:
      return dense_tile<float, MR, NP>(t, tile, panel, packed);
    case PackedMatrix::f16:
      return dense_tile<Half, MR, NP>(t, tile, panel, packed);
    case PackedMatrix::bf16:
      return dense_tile<Brain, MR, NP>(t, tile, panel, packed);
    case PackedMatrix::e8m0:
    case PackedMatrix::e4m3:
      break;  // of scales only
  }
}

// A short tile has few sums in flight, so it processes several panels at once to hide the latency of fma.
template <int MR>
constexpr int panels_at_once() {
  return MR == 1 ? 4 : MR == 2 ? 2 : 1;
}
template <int MR = 1>
FN void f32_panels(int64_t h, const LinearTask& t, int64_t tile) {
  if (h == MR) {
    constexpr int NP = panels_at_once<MR>();
    int64_t p = t.panel_begin;
    for (; p + NP <= t.panel_end; p += NP) f32_tile<MR, NP>(t, tile, p);
    if constexpr (NP > 1) {
      for (; p < t.panel_end; p++) f32_tile<MR, 1>(t, tile, p);
    }
    return;
  }
  if constexpr (MR < kTile) f32_panels<MR + 1>(h, t, tile);
}

// Decodes a panel's codes, or converts its half values, to f32 [padded_cols][16].
static void unpack_panel_values(const PackedMatrix& w, const uint8_t* panel, float* out) {
  if (w.coded()) {
    for (int64_t k = 0; k < w.padded_cols; k += 32) unpack_codes(w, codes_at(w, panel, k), out + k * kLanes);
  } else {
    for (int64_t k = 0; k < w.padded_cols; k++)
      store(out + k * kLanes, load_typed(panel, k * kLanes, w.kind));
  }
}

template <int NP>
FN void f32_full_tile(const LinearTask& t, int64_t tile, int64_t panel, const uint8_t* const* packed,
                      const float* const* values) {
  if (t.weight->coded()) return coded_tile<kTile, NP>(t, tile, panel, packed, values);
  const uint8_t* bytes[NP];
  for (int i = 0; i < NP; i++) bytes[i] = reinterpret_cast<const uint8_t*>(values[i]);
  dense_tile<float, kTile, NP>(t, tile, panel, bytes);
}

static void linear_f32(const LinearTask& t) {
  const PackedMatrix& w = *t.weight;
  int64_t tile = t.tile_begin;
  if (t.unpack) {
    for (int64_t p = t.panel_begin; p < t.panel_end; p += kUnpackedPanels) {
      const uint8_t* packed[kUnpackedPanels];
      const float* values[kUnpackedPanels];
      const int64_t count = t.panel_end - p < kUnpackedPanels ? t.panel_end - p : kUnpackedPanels;
      for (int64_t i = 0; i < count; i++) {
        float* to = static_cast<float*>(t.scratch) + i * w.padded_cols * kLanes;
        packed[i] = w.data + (p + i) * w.panel_bytes;
        values[i] = to;
        unpack_panel_values(w, packed[i], to);
      }
      for (tile = t.tile_begin; tile < t.tile_end && tile_height(*t.input, tile) == kTile; tile++) {
        if (count == kUnpackedPanels)
          f32_full_tile<kUnpackedPanels>(t, tile, p, packed, values);
        else
          f32_full_tile<1>(t, tile, p, packed, values);
      }
    }
  }
  for (; tile < t.tile_end; tile++) f32_panels(tile_height(*t.input, tile), t, tile);
}

static int64_t linear_scratch_bytes(const PackedMatrix& w, int64_t tiles) {
  const int64_t int8 = w.coded() ? int8_scratch_bytes(w, tiles) : 0,
                f32 = kUnpackedPanels * w.padded_cols * kLanes * 4;
  return int8 > f32 ? int8 : f32;
}

// Writes a row's values, in blocks of 32 inputs.
static void embed_row(const PackedMatrix& w, int64_t row, float* y) {
  const uint8_t* panel = w.data + row / kPanelRows * w.panel_bytes;
  const int lane = static_cast<int>(row % kPanelRows);
  float values[32 * kLanes], scale[kLanes] = {}, bias[kLanes] = {};
  for (int64_t k0 = 0; k0 < w.cols; k0 += 32) {
    const int64_t count = w.cols - k0 < 32 ? w.cols - k0 : 32;
    if (w.coded()) {
      unpack_codes(w, codes_at(w, panel, k0), values);
    } else {
      for (int j = 0; j < 32; j++) store(values + j * kLanes, load_typed(panel, (k0 + j) * kLanes, w.kind));
    }
    for (int64_t k = k0; k < k0 + count; k++) {
      const float v = values[(k - k0) * kLanes + lane];
      if (!w.coded()) {
        y[k] = v;
        continue;
      }
      if (k % w.group == 0) {
        const ScaleBias sb = scale_bias(w, panel + k / w.record * w.record_bytes, k % w.record / w.group);
        store(scale, sb.scale);
        store(bias, sb.bias);
      }
      y[k] = w.kind == PackedMatrix::affine ? __builtin_fmaf(v, scale[lane], bias[lane]) : v * scale[lane];
    }
  }
}
