// Products of int8 activations with affine weights (kernels_linear.h states the formula). Included through
// kernels.inl.
//
// Each tile decodes the packed codes as they stream by. Or (LinearTask::unpack) a slice of a panel (kSlice
// inputs, so that it stays in the L1 cache) is unpacked once and meets all tiles; sums wait in `partial`
// between slices.

constexpr int64_t kSlice = 1024;
constexpr int64_t kPrefetchBeside = 8192;  // as kPrefetch, for panels side by side

// Where a panel's codes and scales come from: its records as they are packed, ...
template <int Bits>
struct PackedPanel {
  static constexpr int kBits = Bits, kBlockBytes = 64 * Bits;
  const uint8_t* record;
  int64_t ahead;        // from what is read to what is fetched into the cache meanwhile
  int64_t ahead_later;  // the same from `turn` on
  const uint8_t* turn;  // null: never

  template <int Q>
  FN B quad(const uint8_t* block) {
    return quad_codes<Bits, Q>(block);
  }
  __attribute__((always_inline)) const uint8_t* codes() const { return record; }
  __attribute__((always_inline)) ScaleBias scale_bias(const PackedMatrix& w, int64_t group) const {
    return load_scale_bias(w, record, group);
  }
  __attribute__((always_inline)) void next(const PackedMatrix& w) {
    record += w.record_bytes;
    __builtin_prefetch(record + ahead - 1);  // scales
    if (record == turn) ahead = ahead_later;
  }
  __attribute__((always_inline)) void prefetch(const uint8_t* block) const {
    UNROLL for (int i = 0; i < Bits; i++) __builtin_prefetch(block + ahead + 64 * i);
  }
};
// ... or 64 bytes a quad and floats [group][2][16], written by unpack_slice.
template <int Bits>
struct UnpackedPanel {
  static constexpr int kBits = Bits, kBlockBytes = 512;
  const uint8_t* bytes;
  const float* scales;

  template <int Q>
  FN B quad(const uint8_t* block) {
    return load_bytes(block + 64 * Q);
  }
  __attribute__((always_inline)) const uint8_t* codes() const { return bytes; }
  __attribute__((always_inline)) ScaleBias scale_bias(const PackedMatrix&, int64_t group) const {
    ScaleBias r;
    r.scale = load(scales + group * 2 * kLanes);
    r.bias = load(scales + group * 2 * kLanes + kLanes);
    return r;
  }
  __attribute__((always_inline)) void next(const PackedMatrix& w) {
    bytes += w.record * kLanes;
    scales += w.record / w.group * 2 * kLanes;
  }
  __attribute__((always_inline)) void prefetch(const uint8_t*) const {}
};

template <class Panel, int MR, int NP, int First, int Last, int Q>
FN void dot_quad(const uint8_t* const (&block)[NP], const int8_t* x, Dot<Panel::kBits> (&d)[NP][MR]) {
  Codes<Panel::kBits> codes[NP];
  UNROLL for (int p = 0; p < NP; p++) codes[p] = prepare<Panel::kBits>(Panel::template quad<Q>(block[p]));
  UNROLL for (int i = 0; i < MR; i++) {
    const B xi = splat_quad(x + (Q * MR + i) * 4);
    UNROLL for (int p = 0; p < NP; p++) accumulate<Q, First, Last>(d[p][i], codes[p], xi);
  }
}
template <class Panel, int MR, int NP, int First, int Last, int... Q>
FN void dot_quads_of(Sequence<Q...>, const uint8_t* const (&block)[NP], const int8_t* x,
                     Dot<Panel::kBits> (&d)[NP][MR]) {
  (dot_quad<Panel, MR, NP, First, Last, Q>(block, x, d), ...);
}
// Quads First .. Last of a block.
template <class Panel, int First, int Last, int MR, int NP>
FN void dot_quads(const uint8_t* const (&block)[NP], const int8_t* x, Dot<Panel::kBits> (&d)[NP][MR]) {
  dot_quads_of<Panel, MR, NP, First, Last>(Range<First, Last + 1>(), block, x, d);
}

// One tile's activations, as far as a slice reads them.
struct TileInput {
  const int8_t* q;
  const float *scale, *sum;
  const int32_t* int_sum;
};
FN TileInput tile_input(const Activations& a, int64_t tile, int64_t h, int64_t k) {
  const int64_t row = tile * a.tile;
  return {a.q + row * a.padded_cols + k * h, a.scale + row * (a.padded_cols / a.x_group) + k / a.x_group * h,
          a.sum + row * (a.padded_cols / a.group) + k / a.group * h,
          a.int_sum + row * (a.padded_cols / a.group) + k / a.group * h};
}

template <int Bits, int MR, int NP>
FN void start_dots(Dot<Bits> (&d)[NP][MR]) {
  UNROLL for (int p = 0; p < NP; p++) UNROLL for (int i = 0; i < MR; i++) d[p][i] = Dot<Bits>::start();
}

template <class Panel, int MR, int NP>
FN void finish_group(const PackedMatrix& w, const Panel (&panels)[NP], int64_t group,
                     const Dot<Panel::kBits> (&d)[NP][MR], TileInput& in, F (&acc)[NP][MR]) {
  UNROLL for (int p = 0; p < NP; p++) {
    const ScaleBias sb = panels[p].scale_bias(w, group);
    UNROLL for (int i = 0; i < MR; i++) {
      const F isum = to_float(total(d[p][i], in.int_sum[i]));
      acc[p][i] = fma(isum, mul(sb.scale, splat(in.scale[i])), acc[p][i]);
      acc[p][i] = fma(sb.bias, splat(in.sum[i]), acc[p][i]);
    }
  }
  in.sum += MR;
  in.int_sum += MR;
}

// acc += records [0, records) of the panels times the tile.
template <class Panel, bool Group16, int MR, int NP>
FN void int8_records(const PackedMatrix& w, Panel (&panels)[NP], TileInput in, int64_t records,
                     F (&acc)[NP][MR]) {
  const int64_t groups = w.record / w.group, blocks = w.group / 32;
  const uint8_t* block[NP];
  Dot<Panel::kBits> d[NP][MR];
  for (int64_t r = 0; r < records; r++) {
    UNROLL for (int p = 0; p < NP; p++) block[p] = panels[p].codes();
    const auto next_block = [&]() __attribute__((always_inline)) {
      UNROLL for (int p = 0; p < NP; p++) {
        panels[p].prefetch(block[p]);
        block[p] += Panel::kBlockBytes;
      }
      in.q += 32 * MR;
    };
    for (int64_t g = 0; g < groups; g++) {
      start_dots<Panel::kBits, MR, NP>(d);
      if constexpr (Group16) {
        dot_quads<Panel, 0, 3>(block, in.q, d);
        finish_group<Panel, MR, NP>(w, panels, g++, d, in, acc);
        start_dots<Panel::kBits, MR, NP>(d);
        dot_quads<Panel, 4, 7>(block, in.q, d);
        next_block();
      } else {
        for (int64_t b = 0; b < blocks; b++) {
          dot_quads<Panel, 0, 7>(block, in.q, d);
          next_block();
        }
      }
      finish_group<Panel, MR, NP>(w, panels, g, d, in, acc);
      in.scale += MR;
    }
    UNROLL for (int p = 0; p < NP; p++) panels[p].next(w);
  }
}

template <int MR, int NP>
FN void store_tile(const LinearTask& t, int64_t tile, int64_t panel, const F (&acc)[NP][MR]) {
  const int64_t n = t.weight->rows;
  UNROLL for (int p = 0; p < NP; p++) {
    const int64_t column = (panel + p) * kPanelRows;
    UNROLL for (int i = 0; i < MR; i++)
        store_upto(t.y + (tile * t.input->tile + i) * t.y_stride + column, acc[p][i], n - column);
  }
}

// ---- packed codes

// Panels side by side of a tile: they share its activations. Low tiles wait for memory, which gives one
// stream faster.
constexpr int packed_panels([[maybe_unused]] int height) {
#if defined(__AVX512VNNI__)
  return height <= 4 ? 1 : 2;
#else
  return 1;
#endif
}
constexpr int64_t kPanelBlock = 4;  // panels that all tiles of a task meet before the next ones

// One of NP panels that are read side by side, and then the next NP. What is fetched lies kPrefetchBeside
// bytes further in the panels that take this one's place one after the other, NP panels apart.
template <int Bits, int NP>
FN PackedPanel<Bits> packed_panel(const PackedMatrix& w, int64_t panel) {
  const uint8_t* base = w.data + panel * w.panel_bytes;
  if constexpr (NP == 1) return {base, kPrefetch, kPrefetch, nullptr};
  const int64_t records = kPrefetchBeside / w.record_bytes, over = records / w.records();
  const int64_t ahead = records * w.record_bytes + over * (NP - 1) * w.panel_bytes;
  return {base, ahead, ahead + (NP - 1) * w.panel_bytes,
          base + ((over + 1) * w.records() - records) * w.record_bytes};
}

template <int Bits, bool Group16, int MR, int NP>
static void int8_packed_tile(const LinearTask& t, int64_t tile, int64_t panel) {
  const PackedMatrix& w = *t.weight;
  PackedPanel<Bits> panels[NP];
  F acc[NP][MR];
  UNROLL for (int p = 0; p < NP; p++) {
    panels[p] = packed_panel<Bits, NP>(w, panel + p);
    UNROLL for (int i = 0; i < MR; i++) acc[p][i] = zero();
  }
  int8_records<PackedPanel<Bits>, Group16, MR, NP>(w, panels, tile_input(*t.input, tile, MR, 0), w.records(),
                                                   acc);
  store_tile<MR, NP>(t, tile, panel, acc);
}

// Panels [panel, end) of a tile.
template <int Bits, bool Group16, int MR = 1>
FN void int8_packed_tile_of(int64_t h, const LinearTask& t, int64_t tile, int64_t panel, int64_t end) {
  if (h == MR) {
    constexpr int NP = packed_panels(MR);
    for (; panel + NP <= end; panel += NP) int8_packed_tile<Bits, Group16, MR, NP>(t, tile, panel);
    if constexpr (NP > 1) {
      for (; panel < end; panel++) int8_packed_tile<Bits, Group16, MR, 1>(t, tile, panel);
    }
    return;
  }
  if constexpr (MR < kTallTile) int8_packed_tile_of<Bits, Group16, MR + 1>(h, t, tile, panel, end);
}

// Tiles from `tile_begin` on and panels [panel, end).
template <int Bits, bool Group16>
FN void int8_packed(const LinearTask& t, int64_t tile_begin, int64_t panel, int64_t end) {
  for (int64_t tile = tile_begin; tile < t.tile_end; tile++)
    int8_packed_tile_of<Bits, Group16>(tile_height(*t.input, tile), t, tile, panel, end);
}

// ---- unpacked codes

template <int Bits, int... Q>
FN void unpack_block(Sequence<Q...>, const uint8_t* block, uint8_t* out) {
  (store_bytes(out + 64 * Q, quad_codes<Bits, Q>(block)), ...);
}
template <int Bits>
static void unpack_slice(const PackedMatrix& w, const uint8_t* record, int64_t records, uint8_t* codes,
                         float* scales) {
  for (int64_t r = 0; r < records; r++, record += w.record_bytes) {
    for (int64_t b = 0; b < w.record / 32; b++, codes += 512)
      unpack_block<Bits>(Range<0, 8>(), record + b * 64 * Bits, codes);
    for (int64_t g = 0; g < w.record / w.group; g++, scales += 2 * kLanes) {
      const ScaleBias sb = load_scale_bias(w, record, g);
      store(scales, sb.scale);
      store(scales + kLanes, sb.bias);
    }
  }
}

// Records of a slice; scratch is, for each panel side by side, a slice's codes and scales, then the partial
// sums.
FN int64_t slice_records(const PackedMatrix& w) {
  const int64_t r = kSlice / w.record, all = w.records();
  return r < all ? r : all;
}
FN int64_t slice_bytes(const PackedMatrix& w) {
  const int64_t inputs = slice_records(w) * w.record;
  return inputs * kLanes + inputs / w.group * 2 * kLanes * 4;
}

// What the sums of unpacked codes of this many bits need: kernels are shared where Dot treats them alike.
constexpr int dot_class(int bits) {
  return bits <= 4 ? 4 : bits;
}

template <int Bits, bool Group16, int NP>
FN void int8_slice_tile(const LinearTask& t, int64_t tile, int64_t panel,
                        const UnpackedPanel<Bits> (&from)[NP], int64_t first, int64_t records,
                        float* partial) {
  const PackedMatrix& w = *t.weight;
  UnpackedPanel<Bits> panels[NP];
  F acc[NP][kTile];
  UNROLL for (int p = 0; p < NP; p++) {
    panels[p] = from[p];
    UNROLL for (int i = 0; i < kTile; i++) acc[p][i] =
        first == 0 ? zero() : load(partial + (p * kTile + i) * kLanes);
  }
  int8_records<UnpackedPanel<Bits>, Group16, kTile, NP>(
      w, panels, tile_input(*t.input, tile, kTile, first * w.record), records, acc);
  if (first + records == w.records()) return store_tile<kTile, NP>(t, tile, panel, acc);
  UNROLL for (int p = 0; p < NP; p++) UNROLL for (int i = 0; i < kTile; i++)
      store(partial + (p * kTile + i) * kLanes, acc[p][i]);
}

// All full tiles of the task and NP panels.
template <int Bits, bool Group16, int NP>
static void int8_unpacked(const LinearTask& t, int64_t panel, int64_t tile_end) {
  constexpr int kClass = dot_class(Bits);
  const PackedMatrix& w = *t.weight;
  uint8_t* scratch = static_cast<uint8_t*>(t.scratch);
  const int64_t step = slice_records(w), bytes = slice_bytes(w);
  float* partial = reinterpret_cast<float*>(scratch + kUnpackedPanels * bytes);
  for (int64_t first = 0; first < w.records(); first += step) {
    const int64_t records = w.records() - first < step ? w.records() - first : step;
    UnpackedPanel<kClass> panels[NP];
    for (int p = 0; p < NP; p++) {
      uint8_t* codes = scratch + p * bytes;
      float* scales = reinterpret_cast<float*>(codes + step * w.record * kLanes);
      unpack_slice<Bits>(w, w.data + (panel + p) * w.panel_bytes + first * w.record_bytes, records, codes,
                         scales);
      panels[p] = {codes, scales};
    }
    for (int64_t tile = t.tile_begin; tile < tile_end; tile++)
      int8_slice_tile<kClass, Group16, NP>(t, tile, panel, panels, first, records,
                                           partial + (tile - t.tile_begin) * NP * kTile * kLanes);
  }
}

static int64_t int8_scratch_bytes(const PackedMatrix& w, int64_t tiles) {
  return kUnpacksInt8 ? kUnpackedPanels * (slice_bytes(w) + tiles * kTile * kLanes * 4) : 0;
}

// Full tiles of panels [panel, end), at most kPanelBlock; returns the first tile that is left.
template <int Bits, bool Group16>
FN int64_t int8_unpacked_panels(const LinearTask& t, int64_t panel, int64_t end) {
  const int64_t full = tile_height(*t.input, t.tile_end - 1) == kTile ? t.tile_end : t.tile_end - 1;
  if (full == t.tile_begin) return full;
  for (; panel + kUnpackedPanels <= end; panel += kUnpackedPanels)
    int8_unpacked<Bits, Group16, kUnpackedPanels>(t, panel, full);
  if constexpr (kUnpackedPanels > 1) {
    for (; panel < end; panel++) int8_unpacked<Bits, Group16, 1>(t, panel, full);
  }
  return full;
}

template <int Bits, bool Group16>
static void linear_int8_of(const LinearTask& t) {
  for (int64_t p = t.panel_begin; p < t.panel_end; p += kPanelBlock) {
    const int64_t end = p + kPanelBlock < t.panel_end ? p + kPanelBlock : t.panel_end;
    int64_t first = t.tile_begin;
    if constexpr (kUnpacksInt8) {
      if (t.unpack) first = int8_unpacked_panels<Bits, Group16>(t, p, end);
    }
    int8_packed<Bits, Group16>(t, first, p, end);
  }
}

template <int Bits>
FN void linear_int8_bits(const LinearTask& t) {
  t.weight->group == 16 ? linear_int8_of<Bits, true>(t) : linear_int8_of<Bits, false>(t);
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
