// The common part of the linear kernels: activations, codes and scales. Included through kernels.inl.
//
// For one output (row m, weight row n), whatever the tile:
//   int8, per weight group in order:  acc = fma(float(isum), w_scale * x_scale, acc)
//                                     acc = fma(w_bias, x_sum, acc)    affine codes only
//   fp32, per weight group in order:  s = fma(value(code), x, s) in the order of k
//                                     acc = fma(s, w_scale, acc)
//                                     acc = fma(w_bias, x_sum, acc)    affine codes only
//   dense:                            acc = fma(w, x, acc) in the order of k
// A row with inputs that are not finite gives NaN in the groups that contain them.

// kTile: rows of a micro-kernel. kTallTile: the same for packed int8 codes. kUnpackedPanels: adjacent panels
// when codes are unpacked. kUnpacksInt8: see CpuKernels::unpacks_int8. With VNNI on AMD's processors, packed
// int8 codes are as fast as unpacked ones: shifts and masks run on units that products leave idle. Intel's
// have only two units for all (ops/cpu/dispatch.cc).
#if defined(ANABRANCH_SIMD_PORTABLE)
constexpr int kTile = 2, kTallTile = 2, kUnpackedPanels = 1;
constexpr bool kUnpacksInt8 = true;
#elif defined(__AVX512VNNI__)
constexpr int kTile = 6, kTallTile = 8, kUnpackedPanels = 2;
constexpr bool kUnpacksInt8 = false;
#elif defined(__AVX512F__)
constexpr int kTile = 6, kTallTile = 6, kUnpackedPanels = 2;
constexpr bool kUnpacksInt8 = true;
#else
constexpr int kTile = 4, kTallTile = 5, kUnpackedPanels = 1;
constexpr bool kUnpacksInt8 = true;
#endif
static_assert(kTile <= kTallTile && kTallTile <= kMaxTileRows);
constexpr int64_t kPrefetch = 4096;  // bytes ahead in a panel

FN int64_t tile_height(const Activations& a, int64_t tile) {
  const int64_t left = a.rows - tile * a.tile;
  return left < a.tile ? left : a.tile;
}

// ---- activations

// Quantises one row's x_group: Vectors * kLanes inputs from x, of which `left` exist, in Sums weight groups.
// Writes codes, scale and sums; those of one row are h apart.
template <int Vectors, int Sums>
FN void quantise_group(const float* x, int64_t left, int64_t h, int8_t (&codes)[Vectors * kLanes],
                       float* scale, float* sum, int32_t* int_sum) {
  F v[Vectors];
  I most = splat_int(0);  // the bits of magnitudes, which sort like the magnitudes; infinities and NaNs sort
                          // above all others
  UNROLL for (int j = 0; j < Vectors; j++) {
    v[j] = left <= j * kLanes ? zero() : load_upto(x + j * kLanes, left - j * kLanes);
    most = max(as_int(abs(v[j])), most);
  }
  const int32_t bits = reduce_max(most);
  const bool broken = bits >= 0x7F800000;
  float amax;
  __builtin_memcpy(&amax, &bits, 4);
  const bool tiny = broken || amax <= 1e-30f;  // 127 / amax would overflow: treated as zero
  const float s = broken ? __builtin_nanf("") : tiny ? 0.0f : amax / 127.0f;
  const F inverse = splat(tiny ? 0.0f : 127.0f / amax);
  if (broken) {
    UNROLL for (int j = 0; j < Vectors; j++) v[j] = zero();
  }
  I sums[Sums];
  UNROLL for (int j = 0; j < Vectors; j++) {
    const I c = to_int(mul(v[j], inverse));
    store_i8(codes + j * kLanes, c);
    I& to = sums[j * Sums / Vectors];
    to = j * Sums % Vectors == 0 ? c : add(to, c);
  }
  *scale = s;
  UNROLL for (int j = 0; j < Sums; j++) {
    const int32_t t = reduce_add(sums[j]);
    int_sum[j * h] = t;
    sum[j * h] = s * static_cast<float>(t);
  }
}

template <int Vectors, int Sums>
static void quantise_rows(const float* x, const Activations& a, int64_t begin, int64_t end) {
  for (int64_t m = begin; m < end; m++) {
    const int64_t tile = m / a.tile, h = tile_height(a, tile), offset = tile * a.tile, i = m - offset;
    const float* row = x + m * a.cols;
    int8_t* q = a.q + offset * a.padded_cols + i * 4;
    float* scale = a.scale + offset * (a.padded_cols / a.x_group) + i;
    float* sum = a.sum + offset * (a.padded_cols / a.group) + i;
    int32_t* int_sum = a.int_sum + offset * (a.padded_cols / a.group) + i;
    for (int64_t k = 0; k < a.padded_cols; k += Vectors * kLanes) {
      int8_t codes[Vectors * kLanes];
      quantise_group<Vectors, Sums>(row + k, a.cols - k, h, codes, scale, sum, int_sum);
      UNROLL for (int j = 0; j < Vectors * kLanes / 4; j++) __builtin_memcpy(q + j * h * 4, codes + 4 * j, 4);
      q += Vectors * kLanes * h;
      scale += h;
      sum += Sums * h;
      int_sum += Sums * h;
    }
  }
}

static void prepare_int8(const float* x, const Activations& a, int64_t begin, int64_t end) {
  switch (a.group) {
    case 16:
      return quantise_rows<2, 2>(x, a, begin, end);
    case 32:
      return quantise_rows<2, 1>(x, a, begin, end);
    case 64:
      return quantise_rows<4, 1>(x, a, begin, end);
    case 128:
      return quantise_rows<8, 1>(x, a, begin, end);
  }
}

[[maybe_unused]] static void prepare_f32(const float* x, const Activations& a, int64_t begin, int64_t end) {
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

// Reads the quads of a packed block as bytes: the codes themselves, ...
template <class Format>
struct Reader {
  FN Reader of(const PackedMatrix&) { return {}; }
  template <int Q>
  __attribute__((always_inline)) B quad(const uint8_t* block) const {
    return quad_codes<Format::kBits, Q>(block);
  }
};
// ... or their values from a table.
template <int Most>
struct Reader<TableCodes<Most>> {
  using Format = TableCodes<Most>;
  Table table;
  FN Reader of(const PackedMatrix& w) { return {load_table(w.values, -128 - Format::kMissing)}; }
  template <int Q>
  __attribute__((always_inline)) B quad(const uint8_t* block) const {
    return look_up(table, quad_codes<4, Q>(block));
  }
};

FN F load_typed(const uint8_t* base, int64_t index, PackedMatrix::Kind type) {
  if (type == PackedMatrix::f16) return load_f16(reinterpret_cast<const uint16_t*>(base) + index);
  if (type == PackedMatrix::bf16) return load_bf16(reinterpret_cast<const uint16_t*>(base) + index);
  if (type == PackedMatrix::e8m0) return load_e8m0(base + index);
  if (type == PackedMatrix::e4m3) return load_e4m3(base + index);
  return load(reinterpret_cast<const float*>(base) + index);
}

// Scale and bias of one group of a panel.
struct ScaleBias {
  F scale, bias;
};

// The scale and bias of group `group` of the record, for affine codes.
FN ScaleBias load_scale_bias(const PackedMatrix& w, const uint8_t* record, int64_t group) {
  const uint8_t *scales = record + w.scale_offset, *biases = record + w.bias_offset;
  ScaleBias r;
  if (w.block_scales) {
    const uint16_t* factors = reinterpret_cast<const uint16_t*>(record + w.factor_offset);
    r.scale = mul(load_f16(factors), load_i8(reinterpret_cast<const int8_t*>(scales) + group * kLanes));
    r.bias = w.symmetric ? mul(splat(-w.zero_point), r.scale)
                         : sub(zero(), mul(load_f16(factors + kLanes), load_u8(biases + group * kLanes)));
  } else {
    r.scale = load_typed(scales, group * kLanes, w.scale_type);
    r.bias =
        w.symmetric ? mul(splat(-w.zero_point), r.scale) : load_typed(biases, group * kLanes, w.scale_type);
  }
  return r;
}
// The same for table and fp8 codes, which have no bias.
FN ScaleBias load_scale(const PackedMatrix& w, const uint8_t* record, int64_t group) {
  const uint8_t* scales = record + w.scale_offset;
  ScaleBias r;
  if (w.block_scales)
    r.scale = mul(load_f16(reinterpret_cast<const uint16_t*>(record + w.factor_offset)),
                  load_i8(reinterpret_cast<const int8_t*>(scales) + group * kLanes));
  else
    r.scale = load_typed(scales, group * kLanes, w.scale_type);
  r.scale = mul(r.scale, splat(w.scale_factor));
  r.bias = zero();
  return r;
}
template <class Format>
FN ScaleBias scale_bias_of(const PackedMatrix& w, const uint8_t* record, int64_t group) {
  if constexpr (Format::kBias) return load_scale_bias(w, record, group);
  return load_scale(w, record, group);
}
FN ScaleBias scale_bias(const PackedMatrix& w, const uint8_t* record, int64_t group) {
  return w.kind == PackedMatrix::affine ? load_scale_bias(w, record, group) : load_scale(w, record, group);
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
