// Products of int8 activations with affine and table codes on matrix units (matrix_amx.h), with the bits of
// kernels_linear.h's formula. Included through kernels_matrix.inl.
//
// A slice of two adjacent panels (kMatrixSlice inputs, so that it stays in the L1 cache) is unpacked once and
// multiplied with all tiles of a task. A step is the product of a tile with kStepGroups groups of the slice:
// the matrix unit writes integer sums of a step, eight products one after another, while the vector units
// take those of the step before into fp32 accumulators. Between the two a product waits kStoreDelay others.

constexpr int64_t kMatrixSlice = 512;
constexpr int kStepGroups = 4, kStepProducts = 2 * kStepGroups, kStoreDelay = 2;
constexpr int64_t kSums = kMatrixRows * kLanes;

// ---- activations

template <int Vectors>
static void quantise_matrix_rows(const float* x, const Activations& a, int64_t begin, int64_t end) {
  constexpr int kInputs = Vectors * kLanes, kWidth = kInputs < 64 ? 32 : 64;
  for (int64_t m = begin; m < end; m++) {
    const int64_t i = m % kMatrixRows, offset = m - i;
    const float* row = x + m * a.cols;
    int8_t* q = a.q + offset * a.padded_cols + i * kWidth;
    float* scale = a.scale + offset * (a.padded_cols / a.group) + i;
    float* sum = a.sum + offset * (a.padded_cols / a.group) + i;
    int32_t* int_sum = a.int_sum + offset * (a.padded_cols / a.group) + i;
    for (int64_t k = 0; k < a.padded_cols; k += kInputs) {
      int8_t codes[kInputs];
      quantise_group<Vectors, 1>(row + k, a.cols - k, kMatrixRows, codes, scale, sum, int_sum);
      for (int j = 0; j < kInputs; j += kWidth, q += kMatrixRows * kWidth)
        __builtin_memcpy(q, codes + j, kWidth);
      scale += kMatrixRows;
      sum += kMatrixRows;
      int_sum += kMatrixRows;
    }
  }
}

// Sets the rows after the last to zero.
static void clear_matrix_rows(const Activations& a) {
  const int64_t i = a.rows % kMatrixRows, offset = a.rows - i;
  if (i == 0) return;
  const int64_t width = matrix_width(a.group), missing = kMatrixRows - i;
  for (int64_t b = 0; b < a.padded_cols / width; b++)
    __builtin_memset(a.q + offset * a.padded_cols + (b * kMatrixRows + i) * width, 0,
                     static_cast<uint64_t>(missing * width));
  float* scale = a.scale + offset * (a.padded_cols / a.group) + i;
  float* sum = a.sum + offset * (a.padded_cols / a.group) + i;
  for (int64_t g = 0; g < a.padded_cols / a.group; g++, scale += kMatrixRows, sum += kMatrixRows)
    for (int64_t j = 0; j < missing; j++) scale[j] = sum[j] = 0;
}

static void prepare_matrix(const float* x, const Activations& a, int64_t begin, int64_t end) {
  if (a.tile != kMatrixRows) return prepare_int8(x, a, begin, end);
  switch (a.group) {
    case 32:
      quantise_matrix_rows<2>(x, a, begin, end);
      break;
    case 64:
      quantise_matrix_rows<4>(x, a, begin, end);
      break;
    case 128:
      quantise_matrix_rows<8>(x, a, begin, end);
      break;
  }
  if (end == a.rows) clear_matrix_rows(a);
}

// ---- unpacked slices

FN int64_t matrix_slice_records(const PackedMatrix& w) {
  const int64_t r = kMatrixSlice / w.record, all = w.records();
  return r < all ? r : all;
}
// For each of two panels, scratch holds a slice's codes and scales; then come the sums of two steps and the
// accumulators of all tiles.
FN int64_t matrix_slice_bytes(const PackedMatrix& w) {
  const int64_t inputs = matrix_slice_records(w) * w.record;
  return inputs * kLanes + inputs / w.group * 2 * kLanes * 4;
}
static int64_t matrix_scratch_bytes(const PackedMatrix& w, int64_t tiles) {
  return 2 * (matrix_slice_bytes(w) + kStepProducts * kSums * 4 + tiles * kSums * 4);
}

// The values of table codes are signed here, and affine codes unsigned.
template <class Format>
FN Reader<Format> matrix_reader(const PackedMatrix& w) {
  if constexpr (Format::kBias)
    return {};
  else
    return {load_table(w.values, -128)};
}

template <class Format, int... Q>
FN void unpack_matrix_block(Sequence<Q...>, const Reader<Format>& reader, const uint8_t* block,
                            uint8_t* out) {
  (store_bytes(out + 64 * Q, reader.template quad<Q>(block)), ...);
}
// Writes 64 bytes per quad, and floats [group][2][16].
template <class Format>
static void unpack_matrix(const PackedMatrix& w, const uint8_t* record, int64_t records, uint8_t* codes,
                          float* scales) {
  const auto reader = matrix_reader<Format>(w);
  for (int64_t r = 0; r < records; r++, record += w.record_bytes) {
    for (int64_t b = 0; b < w.record / 32; b++, codes += 512)
      unpack_matrix_block<Format>(Range<0, 8>(), reader, record + b * 64 * Format::kBits, codes);
    for (int64_t g = 0; g < w.record / w.group; g++, scales += 2 * kLanes) {
      const ScaleBias sb = scale_bias_of<Format>(w, record, g);
      store(scales, sb.scale);
      store(scales + kLanes, sb.bias);
    }
  }
}
using UnpackMatrix = void (*)(const PackedMatrix& w, const uint8_t* record, int64_t records, uint8_t* codes,
                              float* scales);

// ---- steps

FN I load_int(const int32_t* p) {
  I r;
  __builtin_memcpy(&r, p, sizeof(r));
  return r;
}

struct MatrixStep {
  int64_t count = 0;  // of groups: 0 to kStepGroups
  const int8_t* q;
  const uint8_t* codes[2];
  int32_t* sums;  // [groups][2 panels][16][16]
  // For the fp32 part:
  const float *scales[2], *x_scale, *x_sum;
  float* acc;        // [2 panels][16][16]
  bool first, last;  // acc begins with zeros; acc goes to y
  int64_t tile;
  const uint8_t* fetch[2];  // memory to be prefetched for each group; null: none
};

// The inputs of one group.
struct MatrixGroup {
  int64_t group, width, fetch, groups;  // fetch: bytes of a group in a record; groups: of a row
  explicit MatrixGroup(const PackedMatrix& w)
      : group(w.group),
        width(matrix_width(w.group)),
        fetch(w.record_bytes / (w.record / w.group)),
        groups(w.groups()) {}
};

// Product P of a step, and the sums of the product kStoreDelay before it. Full: the step has all groups.
template <int P, bool Signed, bool Full>
FN void matrix_product(const MatrixGroup& m, const MatrixStep& step, const MatrixStep& earlier) {
  constexpr int kGroup = P / 2, kPanel = P % 2, kA = kGroup % 2, kB = 2 + kPanel, kC = 4 + P % 4;
  constexpr int kEarlier = (P + kStepProducts - kStoreDelay) % kStepProducts;
  matrix_store<4 + kEarlier % 4>((P < kStoreDelay ? earlier : step).sums + kEarlier * kSums);
  if (!Full && kGroup >= step.count) return;
  const uint8_t* codes = step.codes[kPanel] + kGroup * m.group * kLanes;
  const int64_t k = kGroup * m.group;
  const int8_t* q = step.q + k / m.width * m.width * kMatrixRows + k % m.width;
  if (step.fetch[kPanel]) {
    const uint8_t* line = step.fetch[kPanel] + kGroup * m.fetch;
    for (int64_t i = 0; i < m.fetch; i += 64) __builtin_prefetch(line + i);
  }
  matrix_clear<kC>();
  for (int64_t i = 0; i < m.group; i += m.width, codes += 64 * kLanes, q += 64 * kMatrixRows) {
    if (kPanel == 0 || m.group > 64) matrix_rows<kA>(q, m.width);
    matrix_codes<kB>(codes);
    matrix_multiply<kC, kA, kB, Signed>();
  }
}

constexpr int kHalf = kMatrixRows / 2;
// Takes group `group` of a step's sums into accumulators of half of the rows.
template <bool Bias>
FN void matrix_finish(const MatrixStep& step, int half, int64_t group, F (&acc)[2][kHalf]) {
  const float *x_scale = step.x_scale + group * kMatrixRows + half * kHalf,
              *x_sum = step.x_sum + group * kMatrixRows + half * kHalf;
  const int32_t* sums = step.sums + group * 2 * kSums + half * kHalf * kLanes;
  F scale[2], bias[2];
  UNROLL for (int p = 0; p < 2; p++) {
    scale[p] = load(step.scales[p] + group * 2 * kLanes);
    if constexpr (Bias) bias[p] = load(step.scales[p] + group * 2 * kLanes + kLanes);
  }
  UNROLL for (int i = 0; i < kHalf; i++) {
    const F xs = splat(x_scale[i]);
    F xb;
    if constexpr (Bias) xb = splat(x_sum[i]);
    UNROLL for (int p = 0; p < 2; p++) {
      const F sum = to_float(load_int(sums + p * kSums + i * kLanes));
      acc[p][i] = fma(sum, mul(scale[p], xs), acc[p][i]);
      if constexpr (Bias) acc[p][i] = fma(bias[p], xb, acc[p][i]);
    }
  }
}

// Full: both steps have all groups and rows.
template <int Half, bool Bias, bool Full, int... G>
FN void matrix_half(Sequence<G...>, const MatrixGroup& m, const LinearTask& t, int64_t panel,
                    const MatrixStep& now, const MatrixStep& next) {
  F acc[2][kHalf];
  float* at = now.acc + Half * kHalf * kLanes;
  const bool any = Full || (now.count > 0 && now.tile * kMatrixRows + Half * kHalf < t.input->rows);
  const int64_t count = Full ? kStepGroups : any ? now.count : 0;
  UNROLL for (int p = 0; p < 2; p++) UNROLL for (int i = 0; i < kHalf; i++) acc[p][i] =
      now.first || !any ? zero() : load(at + p * kSums + i * kLanes);
  ((matrix_product<Half * kStepGroups + G, !Bias, Full>(m, next, now),
    G < count ? matrix_finish<Bias>(now, Half, G, acc) : void()),
   ...);
  if (!any) return;
  if (!now.last) {
    UNROLL for (int p = 0; p < 2; p++) UNROLL for (int i = 0; i < kHalf; i++)
        store(at + p * kSums + i * kLanes, acc[p][i]);
    return;
  }
  const int64_t n = t.weight->rows, row = now.tile * kMatrixRows + Half * kHalf;
  UNROLL for (int p = 0; p < 2; p++) {
    const int64_t column = (panel + p) * kPanelRows;
    if (panel + p >= t.panel_end) break;
    UNROLL for (int i = 0; i < kHalf; i++) {
      if (row + i < t.input->rows) store_upto(t.y + (row + i) * t.y_stride + column, acc[p][i], n - column);
    }
  }
}

// Products of `next` and the fp32 part of `now`.
template <bool Bias, bool Full>
static void matrix_halves(const MatrixGroup& m, const LinearTask& t, int64_t panel, const MatrixStep& now,
                          const MatrixStep& next) {
  matrix_half<0, Bias, Full>(Range<0, kStepGroups>(), m, t, panel, now, next);
  matrix_half<1, Bias, Full>(Range<0, kStepGroups>(), m, t, panel, now, next);
}

// A slice of two panels, with all tiles of a task.
struct MatrixSlice {
  const uint8_t* codes[2];
  const float* scales[2];
  int64_t first, groups;  // of the weight's groups
  int32_t* sums;          // of two steps
  float* acc;             // of all tiles
  const uint8_t* fetch[2];
};

FN MatrixStep matrix_step(const MatrixGroup& m, const LinearTask& t, const MatrixSlice& s, int64_t tile,
                          int64_t group, int parity) {
  const Activations& a = *t.input;
  const int64_t row = tile * kMatrixRows, g = s.first + group, left = s.groups - group;
  MatrixStep step;
  step.count = left < kStepGroups ? left : kStepGroups;
  step.q = a.q + row * a.padded_cols + g * m.group * kMatrixRows;
  step.sums = s.sums + parity * kStepProducts * kSums;
  step.x_scale = a.scale + row * m.groups + g * kMatrixRows;
  step.x_sum = a.sum + row * m.groups + g * kMatrixRows;
  step.acc = s.acc + (tile - t.tile_begin) * 2 * kSums;
  step.first = g == 0;
  step.last = g + step.count == m.groups;
  step.tile = tile;
  for (int p = 0; p < 2; p++) {
    step.codes[p] = s.codes[p] + group * m.group * kLanes;
    step.scales[p] = s.scales[p] + group * 2 * kLanes;
    step.fetch[p] = tile == t.tile_begin && s.fetch[p] ? s.fetch[p] + group * m.fetch : nullptr;
  }
  return step;
}

template <bool Bias>
static void matrix_slice(const LinearTask& t, int64_t panel, const MatrixSlice& s) {
  const MatrixGroup m(*t.weight);
  const auto run = [&](const MatrixStep& now, const MatrixStep& next) {
    if (now.count == kStepGroups && next.count == kStepGroups &&
        (now.tile + 1) * kMatrixRows <= t.input->rows)
      matrix_halves<Bias, true>(m, t, panel, now, next);
    else
      matrix_halves<Bias, false>(m, t, panel, now, next);
  };
  MatrixStep now = matrix_step(m, t, s, t.tile_begin, 0, 1);
  now.count = 0;
  int parity = 0;
  for (int64_t tile = t.tile_begin; tile < t.tile_end; tile++) {
    for (int64_t g = 0; g < s.groups; g += kStepGroups, parity ^= 1) {
      const MatrixStep next = matrix_step(m, t, s, tile, g, parity);
      run(now, next);
      now = next;
    }
  }
  MatrixStep none = now;
  none.count = 0;
  none.sums = s.sums + parity * kStepProducts * kSums;
  run(now, none);
}

static void matrix_panels(const LinearTask& t, UnpackMatrix unpack, bool bias) {
  const PackedMatrix& w = *t.weight;
  const int64_t step = matrix_slice_records(w), bytes = matrix_slice_bytes(w), per = w.record / w.group;
  uint8_t* scratch = static_cast<uint8_t*>(t.scratch);
  MatrixSlice s;
  s.sums = reinterpret_cast<int32_t*>(scratch + 2 * bytes);
  s.acc = reinterpret_cast<float*>(s.sums + 2 * kStepProducts * kSums);
  for (int64_t panel = t.panel_begin; panel < t.panel_end; panel += 2) {
    const int64_t panels = t.panel_end - panel < 2 ? 1 : 2;
    for (int64_t first = 0; first < w.records(); first += step) {
      const int64_t records = w.records() - first < step ? w.records() - first : step;
      for (int64_t p = 0; p < 2; p++) {
        if (p == panels) {  // the last panel alone takes both places
          s.codes[1] = s.codes[0], s.scales[1] = s.scales[0], s.fetch[1] = nullptr;
          break;
        }
        uint8_t* codes = scratch + p * bytes;
        float* scales = reinterpret_cast<float*>(codes + step * w.record * kLanes);
        const uint8_t* from = w.data + (panel + p) * w.panel_bytes + first * w.record_bytes;
        unpack(w, from, records, codes, scales);
        s.codes[p] = codes, s.scales[p] = scales;
        const bool ends = first + records == w.records();
        s.fetch[p] = !ends                         ? from + records * w.record_bytes
                     : panel + 2 + p < t.panel_end ? w.data + (panel + 2 + p) * w.panel_bytes
                                                   : nullptr;
      }
      s.first = first * per, s.groups = records * per;
      bias ? matrix_slice<true>(t, panel, s) : matrix_slice<false>(t, panel, s);
    }
  }
}

static UnpackMatrix matrix_unpacker(const PackedMatrix& w) {
  if (w.kind == PackedMatrix::table) return unpack_matrix<TableCodes<128>>;
  switch (w.bits) {
    case 2:
      return unpack_matrix<AffineCodes<2>>;
    case 3:
      return unpack_matrix<AffineCodes<3>>;
    case 4:
      return unpack_matrix<AffineCodes<4>>;
    case 5:
      return unpack_matrix<AffineCodes<5>>;
    case 6:
      return unpack_matrix<AffineCodes<6>>;
  }
  return unpack_matrix<AffineCodes<8>>;
}

// Tiles of kMatrixRows rows.
static void linear_matrix(const LinearTask& t) {
  open_matrix(matrix_width(t.weight->group));
  matrix_panels(t, matrix_unpacker(*t.weight), t.weight->kind == PackedMatrix::affine);
  close_matrix();
}
