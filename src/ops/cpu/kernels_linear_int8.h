// Products of int8 activations with affine and table codes (kernels_linear.h states the formula). Included
// through kernels.inl.
//
// Each tile decodes the packed codes as it reads them. Or (LinearTask::unpack) a slice of a panel (kSlice
// inputs, so that it stays in the L1 cache) is unpacked once and multiplied with all tiles; `partial` holds
// the sums between slices.

constexpr int64_t kSlice = 1024;
constexpr int64_t kPrefetchBeside = 8192;  // like kPrefetch, for adjacent panels

// Two sources of a panel's codes and scales: its packed records, ...
template <class Codes>
struct PackedPanel {
  using Format = Codes;
  static constexpr int kBlockBytes = 64 * Format::kBits;
  Reader<Format> reader;
  const uint8_t* record;
  int64_t ahead;        // distance from the data that is read to the data that is prefetched
  int64_t ahead_later;  // the same from `turn` on
  const uint8_t* turn;  // null: never

  template <int Q>
  __attribute__((always_inline)) B quad(const uint8_t* block) const {
    return reader.template quad<Q>(block);
  }
  __attribute__((always_inline)) const uint8_t* codes() const { return record; }
  __attribute__((always_inline)) ScaleBias scale_bias(const PackedMatrix& w, int64_t group) const {
    return scale_bias_of<Format>(w, record, group);
  }
  __attribute__((always_inline)) void next(const PackedMatrix& w) {
    record += w.record_bytes;
    __builtin_prefetch(record + ahead - 1);  // scales
    if (record == turn) ahead = ahead_later;
  }
  __attribute__((always_inline)) void prefetch(const uint8_t* block) const {
    UNROLL for (int i = 0; i < Format::kBits; i++) __builtin_prefetch(block + ahead + 64 * i);
  }
};
// ... or the output of unpack_slice: 64 bytes per quad, and floats [group][2][16].
template <class Codes>
struct UnpackedPanel {
  using Format = Codes;
  static constexpr int kBlockBytes = 512;
  const uint8_t* bytes;
  const float* scales;

  template <int Q>
  __attribute__((always_inline)) B quad(const uint8_t* block) const {
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

template <class Panel>
using DotOf = Dot<typename Panel::Format>;

template <class Panel, int MR, int NP, int First, int Last, int Q>
FN void dot_quad(const Panel (&panels)[NP], const uint8_t* const (&block)[NP], const int8_t* x,
                 DotOf<Panel> (&d)[NP][MR]) {
  Codes<typename Panel::Format> codes[NP];
  UNROLL for (int p = 0; p < NP; p++) codes[p] =
      prepare<typename Panel::Format>(panels[p].template quad<Q>(block[p]));
  UNROLL for (int i = 0; i < MR; i++) {
    const B xi = splat_quad(x + (Q * MR + i) * 4);
    UNROLL for (int p = 0; p < NP; p++) accumulate<Q, First, Last>(d[p][i], codes[p], xi);
  }
}
template <class Panel, int MR, int NP, int First, int Last, int... Q>
FN void dot_quads_of(Sequence<Q...>, const Panel (&panels)[NP], const uint8_t* const (&block)[NP],
                     const int8_t* x, DotOf<Panel> (&d)[NP][MR]) {
  (dot_quad<Panel, MR, NP, First, Last, Q>(panels, block, x, d), ...);
}
// Quads First .. Last of a block.
template <class Panel, int First, int Last, int MR, int NP>
FN void dot_quads(const Panel (&panels)[NP], const uint8_t* const (&block)[NP], const int8_t* x,
                  DotOf<Panel> (&d)[NP][MR]) {
  dot_quads_of<Panel, MR, NP, First, Last>(Range<First, Last + 1>(), panels, block, x, d);
}

// The activations of a tile's h rows, from input k on.
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

template <class Panel, int MR, int NP>
FN void start_dots(const TileInput& in, DotOf<Panel> (&d)[NP][MR]) {
  UNROLL for (int p = 0; p < NP; p++) UNROLL for (int i = 0; i < MR; i++) d[p][i] =
      DotOf<Panel>::start(in.int_sum[i]);
}

template <class Panel, int MR, int NP>
FN void finish_group(const PackedMatrix& w, const Panel (&panels)[NP], int64_t group,
                     const DotOf<Panel> (&d)[NP][MR], TileInput& in, F (&acc)[NP][MR]) {
  UNROLL for (int p = 0; p < NP; p++) {
    const ScaleBias sb = panels[p].scale_bias(w, group);
    UNROLL for (int i = 0; i < MR; i++) {
      const F isum = to_float(d[p][i].total(in.int_sum[i]));
      acc[p][i] = fma(isum, mul(sb.scale, splat(in.scale[i])), acc[p][i]);
      if constexpr (Panel::Format::kBias) acc[p][i] = fma(sb.bias, splat(in.sum[i]), acc[p][i]);
    }
  }
  in.sum += MR;
  in.int_sum += MR;
}

// acc += product of records [0, records) of the panels with the tile.
template <class Panel, bool Group16, int MR, int NP>
FN void int8_records(const PackedMatrix& w, Panel (&panels)[NP], TileInput in, int64_t records,
                     F (&acc)[NP][MR]) {
  const int64_t groups = w.record / w.group, blocks = w.group / 32;
  const uint8_t* block[NP];
  DotOf<Panel> d[NP][MR];
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
      start_dots<Panel, MR, NP>(in, d);
      if constexpr (Group16) {
        dot_quads<Panel, 0, 3>(panels, block, in.q, d);
        finish_group<Panel, MR, NP>(w, panels, g++, d, in, acc);
        start_dots<Panel, MR, NP>(in, d);
        dot_quads<Panel, 4, 7>(panels, block, in.q, d);
        next_block();
      } else {
        for (int64_t b = 0; b < blocks; b++) {
          dot_quads<Panel, 0, 7>(panels, block, in.q, d);
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

// Number of adjacent panels per tile; they share the tile's activations. Short tiles are limited by memory,
// which is faster with a single stream.
constexpr int packed_panels([[maybe_unused]] int height) {
#if defined(__AVX512VNNI__)
  return height <= 4 ? 1 : 2;
#else
  return 1;
#endif
}
// Panels that are multiplied with all tiles of a task before the next panels.
constexpr int64_t kPanelBlock = 4;

// A panel that is read together with NP - 1 others, before the next NP panels. Prefetching goes
// kPrefetchBeside bytes ahead in the sequence of panels at this place, which are NP panels apart.
template <class Format, int NP>
FN PackedPanel<Format> packed_panel(const PackedMatrix& w, int64_t panel) {
  const uint8_t* base = w.data + panel * w.panel_bytes;
  const auto reader = Reader<Format>::of(w);
  if constexpr (NP == 1) return {reader, base, kPrefetch, kPrefetch, nullptr};
  const int64_t records = kPrefetchBeside / w.record_bytes, over = records / w.records();
  const int64_t ahead = records * w.record_bytes + over * (NP - 1) * w.panel_bytes;
  return {reader, base, ahead, ahead + (NP - 1) * w.panel_bytes,
          base + ((over + 1) * w.records() - records) * w.record_bytes};
}

template <class Format, bool Group16, int MR, int NP>
static void int8_packed_tile(const LinearTask& t, int64_t tile, int64_t panel) {
  const PackedMatrix& w = *t.weight;
  PackedPanel<Format> panels[NP];
  F acc[NP][MR];
  UNROLL for (int p = 0; p < NP; p++) {
    panels[p] = packed_panel<Format, NP>(w, panel + p);
    UNROLL for (int i = 0; i < MR; i++) acc[p][i] = zero();
  }
  int8_records<PackedPanel<Format>, Group16, MR, NP>(w, panels, tile_input(*t.input, tile, MR, 0),
                                                     w.records(), acc);
  store_tile<MR, NP>(t, tile, panel, acc);
}

// Computes panels [panel, end) of a tile.
template <class Format, bool Group16, int MR = 1>
FN void int8_packed_tile_of(int64_t h, const LinearTask& t, int64_t tile, int64_t panel, int64_t end) {
  if (h == MR) {
    constexpr int NP = packed_panels(MR);
    for (; panel + NP <= end; panel += NP) int8_packed_tile<Format, Group16, MR, NP>(t, tile, panel);
    if constexpr (NP > 1) {
      for (; panel < end; panel++) int8_packed_tile<Format, Group16, MR, 1>(t, tile, panel);
    }
    return;
  }
  if constexpr (MR < kTallTile) int8_packed_tile_of<Format, Group16, MR + 1>(h, t, tile, panel, end);
}

// Computes tiles from `tile_begin` on and panels [panel, end).
template <class Format, bool Group16>
FN void int8_packed(const LinearTask& t, int64_t tile_begin, int64_t panel, int64_t end) {
  for (int64_t tile = tile_begin; tile < t.tile_end; tile++)
    int8_packed_tile_of<Format, Group16>(tile_height(*t.input, tile), t, tile, panel, end);
}

// ---- unpacked codes

template <class Format, int... Q>
FN void unpack_block(Sequence<Q...>, const Reader<Format>& reader, const uint8_t* block, uint8_t* out) {
  (store_bytes(out + 64 * Q, reader.template quad<Q>(block)), ...);
}
template <class Format>
static void unpack_slice(const PackedMatrix& w, const uint8_t* record, int64_t records, uint8_t* codes,
                         float* scales) {
  const auto reader = Reader<Format>::of(w);
  for (int64_t r = 0; r < records; r++, record += w.record_bytes) {
    for (int64_t b = 0; b < w.record / 32; b++, codes += 512)
      unpack_block<Format>(Range<0, 8>(), reader, record + b * 64 * Format::kBits, codes);
    for (int64_t g = 0; g < w.record / w.group; g++, scales += 2 * kLanes) {
      const ScaleBias sb = scale_bias_of<Format>(w, record, g);
      store(scales, sb.scale);
      store(scales + kLanes, sb.bias);
    }
  }
}

// Records per slice. For each adjacent panel, scratch holds a slice's codes and scales, then the partial
// sums.
FN int64_t slice_records(const PackedMatrix& w) {
  const int64_t r = kSlice / w.record, all = w.records();
  return r < all ? r : all;
}
FN int64_t slice_bytes(const PackedMatrix& w) {
  const int64_t inputs = slice_records(w) * w.record;
  return inputs * kLanes + inputs / w.group * 2 * kLanes * 4;
}

// The format of unpacked codes: formats whose sums are treated alike share kernels.
template <class Format>
struct Unpacked {
  using Type = Format;
};
template <>
struct Unpacked<AffineCodes<2>> {
  using Type = AffineCodes<4>;
};
template <>
struct Unpacked<AffineCodes<3>> {
  using Type = AffineCodes<4>;
};

template <class Format, bool Group16, int NP>
FN void int8_slice_tile(const LinearTask& t, int64_t tile, int64_t panel,
                        const UnpackedPanel<Format> (&from)[NP], int64_t first, int64_t records,
                        float* partial) {
  const PackedMatrix& w = *t.weight;
  UnpackedPanel<Format> panels[NP];
  F acc[NP][kTile];
  UNROLL for (int p = 0; p < NP; p++) {
    panels[p] = from[p];
    UNROLL for (int i = 0; i < kTile; i++) acc[p][i] =
        first == 0 ? zero() : load(partial + (p * kTile + i) * kLanes);
  }
  int8_records<UnpackedPanel<Format>, Group16, kTile, NP>(
      w, panels, tile_input(*t.input, tile, kTile, first * w.record), records, acc);
  if (first + records == w.records()) return store_tile<kTile, NP>(t, tile, panel, acc);
  UNROLL for (int p = 0; p < NP; p++) UNROLL for (int i = 0; i < kTile; i++)
      store(partial + (p * kTile + i) * kLanes, acc[p][i]);
}

// Computes all full tiles of the task with NP panels.
template <class Format, bool Group16, int NP>
static void int8_unpacked(const LinearTask& t, int64_t panel, int64_t tile_end) {
  using Bytes = typename Unpacked<Format>::Type;
  const PackedMatrix& w = *t.weight;
  uint8_t* scratch = static_cast<uint8_t*>(t.scratch);
  const int64_t step = slice_records(w), bytes = slice_bytes(w);
  float* partial = reinterpret_cast<float*>(scratch + kUnpackedPanels * bytes);
  for (int64_t first = 0; first < w.records(); first += step) {
    const int64_t records = w.records() - first < step ? w.records() - first : step;
    UnpackedPanel<Bytes> panels[NP];
    for (int p = 0; p < NP; p++) {
      uint8_t* codes = scratch + p * bytes;
      float* scales = reinterpret_cast<float*>(codes + step * w.record * kLanes);
      unpack_slice<Format>(w, w.data + (panel + p) * w.panel_bytes + first * w.record_bytes, records, codes,
                           scales);
      panels[p] = {codes, scales};
    }
    for (int64_t tile = t.tile_begin; tile < tile_end; tile++)
      int8_slice_tile<Bytes, Group16, NP>(t, tile, panel, panels, first, records,
                                          partial + (tile - t.tile_begin) * NP * kTile * kLanes);
  }
}

static int64_t int8_scratch_bytes(const PackedMatrix& w, int64_t tiles) {
  return kUnpackedPanels * (slice_bytes(w) + tiles * kTile * kLanes * 4);
}

// Computes the full tiles of panels [panel, end), at most kPanelBlock; returns the first tile that is not
// computed.
template <class Format, bool Group16>
FN int64_t int8_unpacked_panels(const LinearTask& t, int64_t panel, int64_t end) {
  const int64_t full = tile_height(*t.input, t.tile_end - 1) == kTile ? t.tile_end : t.tile_end - 1;
  if (full == t.tile_begin) return full;
  for (; panel + kUnpackedPanels <= end; panel += kUnpackedPanels)
    int8_unpacked<Format, Group16, kUnpackedPanels>(t, panel, full);
  if constexpr (kUnpackedPanels > 1) {
    for (; panel < end; panel++) int8_unpacked<Format, Group16, 1>(t, panel, full);
  }
  return full;
}

template <class Format, bool Group16>
static void linear_int8_of(const LinearTask& t) {
  for (int64_t p = t.panel_begin; p < t.panel_end; p += kPanelBlock) {
    const int64_t end = p + kPanelBlock < t.panel_end ? p + kPanelBlock : t.panel_end;
    const int64_t first = t.unpack ? int8_unpacked_panels<Format, Group16>(t, p, end) : t.tile_begin;
    int8_packed<Format, Group16>(t, first, p, end);
  }
}

template <class Format>
FN void linear_int8_format(const LinearTask& t) {
  t.weight->group == 16 ? linear_int8_of<Format, true>(t) : linear_int8_of<Format, false>(t);
}

static void linear_int8_table(const LinearTask& t) {
  if constexpr (kHasMaddubs) {  // without maddubs the sums cannot saturate with any table
    if (t.weight->most <= 16) return linear_int8_format<TableCodes<16>>(t);
    if (t.weight->most <= 64) return linear_int8_format<TableCodes<64>>(t);
  }
  linear_int8_format<TableCodes<128>>(t);
}

static void linear_int8(const LinearTask& t) {
  if (t.weight->kind == PackedMatrix::table) return linear_int8_table(t);
  switch (t.weight->bits) {
    case 2:
      return linear_int8_format<AffineCodes<2>>(t);
    case 3:
      return linear_int8_format<AffineCodes<3>>(t);
    case 4:
      return linear_int8_format<AffineCodes<4>>(t);
    case 5:
      return linear_int8_format<AffineCodes<5>>(t);
    case 6:
      return linear_int8_format<AffineCodes<6>>(t);
    case 8:
      return linear_int8_format<AffineCodes<8>>(t);
  }
}
