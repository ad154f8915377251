// Linear kernels: activation preparation, int8 and fp32 products with packed weights. Included through
// kernels.inl.
//
// For one output (row m, weight row n), whatever the tile:
//   int8: per weight group, in order: acc = fma(float(isum), w_scale * x_scale, acc); acc = fma(w_bias,
//   x_sum, acc) fp32: per weight group: s = fma(float(code), x, s) in the order of k; acc = fma(s, w_scale,
//   acc);
//         acc = fma(w_bias, x_sum, acc).  Dense: acc = fma(w, x, acc) in the order of k.

// Rows of a micro-kernel and, when its codes lie unpacked, panels beside each other.
#if defined(ANABRANCH_SIMD_PORTABLE)
constexpr int kTile = 2, kUnpackedPanels = 1;
#elif defined(__AVX512F__)
constexpr int kTile = 6, kUnpackedPanels = 2;
#else
constexpr int kTile = 4, kUnpackedPanels = 1;
#endif
static_assert(kTile <= kMaxTileRows);
constexpr int64_t kPrefetch = 4096;  // bytes ahead in the packed codes

FN int64_t tile_height(const Activations& a, int64_t tile) {
  const int64_t left = a.rows - tile * a.tile;
  return left < a.tile ? left : a.tile;
}

// ---- activations
// --------------------------------------------------------------------------------------------------

// One row in groups of x_group: q and one scale per group; sums per weight group. `step` = tile height.
FN void quantise_row(const float* x, const Activations& a, int64_t tile, int64_t i, int64_t h) {
  const int64_t offset = tile * a.tile, sums_per_group = a.x_group / a.group;
  int8_t* q = a.q + offset * a.padded_cols + i * 4;
  float* scale = a.scale + offset * (a.padded_cols / a.x_group) + i;
  float* sum = a.sum + offset * (a.padded_cols / a.group) + i;
  int32_t* int_sum = a.int_sum + offset * (a.padded_cols / a.group) + i;
  for (int64_t k0 = 0; k0 < a.padded_cols; k0 += a.x_group) {
    F v[8], most = zero();
    const int vectors = a.x_group / kLanes;  // 2 .. 8
    for (int j = 0; j < vectors; j++) {
      const int64_t left = a.cols - k0 - j * kLanes;
      v[j] = left <= 0 ? zero() : load_upto(x + k0 + j * kLanes, left);
      most = max(abs(v[j]), most);
    }
    const float amax = reduce_max(most);
    const bool tiny = !(amax > 1e-30f);  // 127 / amax would overflow: call it zero
    const float s = tiny ? 0.0f : amax / 127.0f;
    const F inverse = splat(tiny ? 0.0f : 127.0f / amax);
    int8_t codes[128];
    int32_t sums[8];
    for (int j = 0; j < vectors; j++) {
      const I c = to_int(mul(v[j], inverse));
      store_i8(codes + j * kLanes, c);
      sums[j] = reduce_add(c);
    }
    for (int j = 0; j < a.x_group / 4; j++) __builtin_memcpy(q + (k0 / 4 + j) * h * 4, codes + 4 * j, 4);
    *scale = s;
    scale += h;
    const int per_sum = vectors / static_cast<int>(sums_per_group);
    for (int j = 0; j < vectors; j += per_sum) {
      int32_t t = 0;
      for (int l = 0; l < per_sum; l++) t += sums[j + l];
      *int_sum = t;
      *sum = s * static_cast<float>(t);
      int_sum += h;
      sum += h;
    }
  }
}

static void prepare_int8(const float* x, const Activations& a, int64_t begin, int64_t end) {
  for (int64_t m = begin; m < end; m++) {
    const int64_t tile = m / a.tile;
    quantise_row(x + m * a.cols, a, tile, m - tile * a.tile, tile_height(a, tile));
  }
}

static void prepare_f32(const float* x, const Activations& a, int64_t begin, int64_t end) {
  for (int64_t m = begin; m < end; m++) {
    const int64_t tile = m / a.tile, h = tile_height(a, tile), i = m - tile * a.tile;
    const float* row = x + m * a.cols;
    float* to = a.x + tile * a.tile * a.padded_cols + i;
    for (int64_t k = 0; k < a.cols; k++) to[k * h] = row[k];
    for (int64_t k = a.cols; k < a.padded_cols; k++) to[k * h] = 0;
    if (a.group == 0) continue;
    float* sum = a.sum + tile * a.tile * (a.padded_cols / a.group) + i;
    for (int64_t k0 = 0; k0 < a.padded_cols; k0 += a.group, sum += h) {
      F s = zero();
      for (int64_t k = k0; k < k0 + a.group; k += kLanes)
        if (k < a.cols) s = add(s, load_upto(row + k, a.cols - k));
      *sum = reduce_add(s);
    }
  }
}

// ---- codes
// --------------------------------------------------------------------------------------------------------

// The 64 codes of quad Q (of 8) of a 32-block: byte 4 * lane + j is input 4 Q + j.
template <int Bits, int Q>
FN B quad_codes(const uint8_t* block) {
  if constexpr (Bits == 8) return load_bytes(block + 64 * Q);
  if constexpr (Bits == 4) return bits_of<-4 * (Q % 2), 15>(load_bytes(block + 64 * (Q / 2)));
  if constexpr (Bits == 2) return bits_of<-2 * (Q % 4), 3>(load_bytes(block + 64 * (Q / 4)));
  if constexpr (Bits == 3) return bit_or(quad_codes<2, Q>(block), bits_of<2 - Q, 4>(load_bytes(block + 128)));
  if constexpr (Bits == 5)
    return bit_or(quad_codes<4, Q>(block), bits_of<4 - Q, 16>(load_bytes(block + 256)));
  if constexpr (Bits == 6)
    return bit_or(quad_codes<4, Q>(block),
                  bits_of<4 - 2 * (Q % 4), 48>(load_bytes(block + 256 + 64 * (Q / 4))));
}

FN F load_typed(const uint8_t* base, int64_t index, PackedMatrix::Kind type) {
  if (type == PackedMatrix::f16) return load_f16(reinterpret_cast<const uint16_t*>(base) + index);
  if (type == PackedMatrix::bf16) return load_bf16(reinterpret_cast<const uint16_t*>(base) + index);
  return load(reinterpret_cast<const float*>(base) + index);
}

// Scale and bias of one group of a panel.
struct ScaleBias {
  F scale, bias;
};
FN ScaleBias load_scale_bias(const PackedMatrix& w, const uint8_t* panel, int64_t group) {
  ScaleBias r;
  r.scale = load_typed(panel + w.scale_offset, group * kLanes, w.scale_type);
  r.bias = w.symmetric ? mul(splat(-w.zero_point), r.scale)
                       : load_typed(panel + w.bias_offset, group * kLanes, w.scale_type);
  return r;
}

template <int... N>
struct Sequence {};
template <int Begin, int End, int... N>
struct MakeSequence : MakeSequence<Begin, End - 1, End - 1, N...> {};
template <int Begin, int... N>
struct MakeSequence<Begin, Begin, N...> {
  using Type = Sequence<N...>;
};
template <int Begin, int End>
using Range = typename MakeSequence<Begin, End>::Type;

// ---- int8
// ---------------------------------------------------------------------------------------------------------

// Where the codes of a 32-block come from: the packed planes, or 64 bytes a quad written by unpack_panel.
template <int Bits>
struct PackedCodes {
  static constexpr bool kGroup16 = false;
  static constexpr int kBits = Bits, kBlockBytes = 64 * Bits;
  template <int Q>
  FN B quad(const uint8_t* block) {
    return quad_codes<Bits, Q>(block);
  }
  FN void prefetch(const uint8_t* block) {
    UNROLL for (int i = 0; i < Bits; i++) __builtin_prefetch(block + kPrefetch + 64 * i);
  }
};
template <int Bits, bool Group16>
struct UnpackedCodes {
  static constexpr bool kGroup16 = Group16;
  static constexpr int kBits = Bits, kBlockBytes = 512;
  template <int Q>
  FN B quad(const uint8_t* block) {
    return load_bytes(block + 64 * Q);
  }
  FN void prefetch(const uint8_t*) {}
};

template <class Source, int MR, int NP, int Last, int Q>
FN void dot_quad(const uint8_t* const (&block)[NP], const int8_t* x, Dot<Source::kBits> (&d)[NP][MR]) {
  Codes<Source::kBits> codes[NP];
  UNROLL for (int p = 0; p < NP; p++) codes[p] = prepare<Source::kBits>(Source::template quad<Q>(block[p]));
  UNROLL for (int i = 0; i < MR; i++) {
    const B xi = splat_quad(x + (Q * MR + i) * 4);
    UNROLL for (int p = 0; p < NP; p++) accumulate<Q, Last>(d[p][i], codes[p], xi);
  }
}
template <class Source, int MR, int NP, int Last, int... Q>
FN void dot_quads(Sequence<Q...>, const uint8_t* const (&block)[NP], const int8_t* x,
                  Dot<Source::kBits> (&d)[NP][MR]) {
  (dot_quad<Source, MR, NP, Last, Q>(block, x, d), ...);
}

template <int Bits, int MR, int NP>
FN void start_dots(Dot<Bits> (&d)[NP][MR]) {
  UNROLL for (int p = 0; p < NP; p++) UNROLL for (int i = 0; i < MR; i++) d[p][i] = Dot<Bits>::start();
}

template <int Bits, int MR, int NP>
FN void finish_group(const Dot<Bits> (&d)[NP][MR], const ScaleBias (&sb)[NP], const float* x_scale,
                     const float* x_sum, const int32_t* int_sum, F (&acc)[NP][MR]) {
  UNROLL for (int p = 0; p < NP; p++) {
    UNROLL for (int i = 0; i < MR; i++) {
      const F isum = to_float(total(d[p][i], int_sum[i]));
      acc[p][i] = fma(isum, mul(sb[p].scale, splat(x_scale[i])), acc[p][i]);
      acc[p][i] = fma(sb[p].bias, splat(x_sum[i]), acc[p][i]);
    }
  }
}

// A panel as the int8 kernel reads it: codes, and scales either packed or (after unpack_panel) as floats.
struct Int8Panel {
  const uint8_t* codes;
  const uint8_t* packed;    // the packed panel, or null
  const float* scale_bias;  // [group][2][16]
};
FN ScaleBias panel_scale_bias(const PackedMatrix& w, const Int8Panel& panel, int64_t group) {
  if (panel.packed) return load_scale_bias(w, panel.packed, group);
  ScaleBias r;
  r.scale = load(panel.scale_bias + group * 2 * kLanes);
  r.bias = load(panel.scale_bias + group * 2 * kLanes + kLanes);
  return r;
}

template <int MR, int NP>
FN void store_tile(const LinearTask& t, int64_t tile, int64_t panel, const F (&acc)[NP][MR]) {
  const int64_t n = t.weight->rows;
  UNROLL for (int p = 0; p < NP; p++) {
    const int64_t column = (panel + p) * kPanelRows;
    UNROLL for (int i = 0; i < MR; i++)
        store_upto(t.y + (tile * t.input->tile + i) * n + column, acc[p][i], n - column);
  }
}

template <class Source, int MR, int NP>
static void int8_tile(const LinearTask& t, int64_t tile, int64_t panel, const Int8Panel* panels) {
  constexpr int Bits = Source::kBits;
  const PackedMatrix& w = *t.weight;
  const Activations& a = *t.input;
  const int64_t row = tile * a.tile;
  const int8_t* x = a.q + row * a.padded_cols;
  const float* x_scale = a.scale + row * (a.padded_cols / a.x_group);
  const float* x_sum = a.sum + row * (a.padded_cols / a.group);
  const int32_t* int_sum = a.int_sum + row * (a.padded_cols / a.group);
  const uint8_t* block[NP];
  F acc[NP][MR];
  for (int p = 0; p < NP; p++) {
    block[p] = panels[p].codes;
    UNROLL for (int i = 0; i < MR; i++) acc[p][i] = zero();
  }
  ScaleBias sb[NP];
  Dot<Bits> d[NP][MR];
  if constexpr (Source::kGroup16) {
    for (int64_t g = 0; g < w.groups(); g += 2) {
      UNROLL for (int p = 0; p < NP; p++) sb[p] = panel_scale_bias(w, panels[p], g);
      start_dots<Bits, MR, NP>(d);
      dot_quads<Source, MR, NP, 3>(Range<0, 4>(), block, x, d);
      finish_group<Bits, MR, NP>(d, sb, x_scale, x_sum, int_sum, acc);
      UNROLL for (int p = 0; p < NP; p++) sb[p] = panel_scale_bias(w, panels[p], g + 1);
      start_dots<Bits, MR, NP>(d);
      dot_quads<Source, MR, NP, 7>(Range<4, 8>(), block, x, d);
      finish_group<Bits, MR, NP>(d, sb, x_scale, x_sum + MR, int_sum + MR, acc);
      UNROLL for (int p = 0; p < NP; p++) block[p] += Source::kBlockBytes;
      x += 32 * MR;
      x_scale += MR, x_sum += 2 * MR, int_sum += 2 * MR;
    }
  } else {
    const int64_t blocks = w.group / 32;
    for (int64_t g = 0; g < w.groups(); g++) {
      start_dots<Bits, MR, NP>(d);
      for (int64_t b = 0; b < blocks; b++) {
        dot_quads<Source, MR, NP, 7>(Range<0, 8>(), block, x, d);
        UNROLL for (int p = 0; p < NP; p++) {
          Source::prefetch(block[p]);
          block[p] += Source::kBlockBytes;
        }
        x += 32 * MR;
      }
      UNROLL for (int p = 0; p < NP; p++) sb[p] = panel_scale_bias(w, panels[p], g);
      finish_group<Bits, MR, NP>(d, sb, x_scale, x_sum, int_sum, acc);
      x_scale += MR, x_sum += MR, int_sum += MR;
    }
  }
  store_tile<MR, NP>(t, tile, panel, acc);
}

template <class Source, int NP, int MR = 1>
FN void int8_tile_of_height(int64_t h, const LinearTask& t, int64_t tile, int64_t panel,
                            const Int8Panel* panels) {
  if (h == MR) return int8_tile<Source, MR, NP>(t, tile, panel, panels);
  if constexpr (MR < kTile) int8_tile_of_height<Source, NP, MR + 1>(h, t, tile, panel, panels);
}

// Scratch of an unpacked panel: codes [padded_cols / 4][64], then scales and biases [group][2][16] f32.
FN int64_t unpacked_panel_bytes(const PackedMatrix& w) {
  return w.padded_cols * kPanelRows + (w.kind == PackedMatrix::affine ? w.groups() * 2 * kLanes * 4 : 0);
}

template <int Bits, int... Q>
FN void unpack_block(Sequence<Q...>, const uint8_t* block, uint8_t* out) {
  (store_bytes(out + 64 * Q, quad_codes<Bits, Q>(block)), ...);
}
FN void unpack_scales(const PackedMatrix& w, const uint8_t* panel, float* out) {
  for (int64_t g = 0; g < w.groups(); g++) {
    const ScaleBias sb = load_scale_bias(w, panel, g);
    store(out + g * 2 * kLanes, sb.scale);
    store(out + g * 2 * kLanes + kLanes, sb.bias);
  }
}
template <int Bits>
static Int8Panel unpack_panel(const PackedMatrix& w, const uint8_t* panel, uint8_t* scratch) {
  for (int64_t b = 0; b < w.padded_cols / 32; b++)
    unpack_block<Bits>(Range<0, 8>(), panel + b * 64 * Bits, scratch + b * 512);
  float* scales = reinterpret_cast<float*>(scratch + w.padded_cols * kPanelRows);
  unpack_scales(w, panel, scales);
  return {scratch, nullptr, scales};
}

// What the sums of unpacked codes of this many bits need: kernels are shared where Dot treats them alike.
constexpr int dot_class(int bits, bool group16) {
  return bits == 8 ? 8 : group16 ? 6 : bits <= 4 ? 4 : bits;
}

// One panel, codes read packed for each tile; or unpacked once, when the group is 16 or there are many tiles.
template <int Bits>
static void int8_panel(const LinearTask& t, int64_t p) {
  const PackedMatrix& w = *t.weight;
  const uint8_t* packed = w.data + p * w.panel_bytes;
  const Int8Panel panel = {packed, packed, nullptr};
  for (int64_t tile = t.tile_begin; tile < t.tile_end; tile++)
    int8_tile_of_height<PackedCodes<Bits>, 1>(tile_height(*t.input, tile), t, tile, p, &panel);
}

template <int Bits>
static void int8_panel_group16(const LinearTask& t, int64_t p) {
  const PackedMatrix& w = *t.weight;
  const Int8Panel panel = unpack_panel<Bits>(w, w.data + p * w.panel_bytes, static_cast<uint8_t*>(t.scratch));
  for (int64_t tile = t.tile_begin; tile < t.tile_end; tile++)
    int8_tile_of_height<UnpackedCodes<dot_class(Bits, true), true>, 1>(tile_height(*t.input, tile), t, tile,
                                                                       p, &panel);
}

// kUnpackedPanels panels side by side, every full tile; a lower last tile reads the packed codes.
template <int Bits>
static void int8_panels_unpacked(const LinearTask& t, int64_t p) {
  const PackedMatrix& w = *t.weight;
  uint8_t* scratch = static_cast<uint8_t*>(t.scratch);
  Int8Panel panels[kUnpackedPanels];
  for (int i = 0; i < kUnpackedPanels; i++)
    panels[i] =
        unpack_panel<Bits>(w, w.data + (p + i) * w.panel_bytes, scratch + i * (unpacked_panel_bytes(w) + 64));
  LinearTask rest = t;
  for (int64_t& tile = rest.tile_begin; tile < t.tile_end && tile_height(*t.input, tile) == kTile; tile++)
    int8_tile<UnpackedCodes<dot_class(Bits, false), false>, kTile, kUnpackedPanels>(t, tile, p, panels);
  for (int i = 0; i < kUnpackedPanels; i++) int8_panel<Bits>(rest, p + i);
}

template <int Bits>
static void linear_int8_bits(const LinearTask& t) {
  int64_t p = t.panel_begin;
  if (t.weight->group == 16) {
    for (; p < t.panel_end; p++) int8_panel_group16<Bits>(t, p);
  } else if (t.unpack) {
    for (; p + kUnpackedPanels <= t.panel_end; p += kUnpackedPanels) int8_panels_unpacked<Bits>(t, p);
  }
  for (; p < t.panel_end; p++) int8_panel<Bits>(t, p);
}

static void linear_int8(const LinearTask& t) {
  switch (t.weight->bits) {
    case 2:
      return linear_int8_bits<2>(t);
    case 3:
      return linear_int8_bits<3>(t);
    case 4:
      return linear_int8_bits<4>(t);
    case 5:
      return linear_int8_bits<5>(t);
    case 6:
      return linear_int8_bits<6>(t);
    case 8:
      return linear_int8_bits<8>(t);
  }
}
