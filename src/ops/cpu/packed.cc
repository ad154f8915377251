#include "ops/cpu/packed.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/float16.h"
#include "base/float8.h"
#include "ops/cpu/device.h"

namespace anabranch::ops::cpu {
namespace {

PackedMatrix::Kind kind_of(ScaleType type) {
  switch (type) {
    case ScaleType::f16:
      return PackedMatrix::f16;
    case ScaleType::bf16:
      return PackedMatrix::bf16;
    case ScaleType::e8m0:
      return PackedMatrix::e8m0;
    case ScaleType::e4m3:
      return PackedMatrix::e4m3;
    case ScaleType::f32:
      break;
  }
  return PackedMatrix::f32;
}
PackedMatrix::Kind kind_of(WeightKind kind) {
  switch (kind) {
    case WeightKind::affine:
      return PackedMatrix::affine;
    case WeightKind::table:
      return PackedMatrix::table;
    case WeightKind::fp8:
      return PackedMatrix::fp8;
    case WeightKind::f16:
      return PackedMatrix::f16;
    case WeightKind::bf16:
      return PackedMatrix::bf16;
    case WeightKind::f32:
      break;
  }
  return PackedMatrix::f32;
}
int size_of(PackedMatrix::Kind kind) {
  if (kind == PackedMatrix::e8m0 || kind == PackedMatrix::e4m3) return 1;
  return kind == PackedMatrix::f32 ? 4 : 2;
}

// The e8m0 code of the largest power of two that is not above x; never the code of NaN.
uint8_t to_e8m0(float x) {
  return static_cast<uint8_t>(std::min(std::bit_cast<uint32_t>(x) >> 23 & 0xFFu, 254u));
}

// Converts `count` floats to `type`.
void to_typed(const CpuKernels& kernels, PackedMatrix::Kind type, const float* from, int64_t count,
              uint8_t* to) {
  if (type == PackedMatrix::f32) {
    std::memcpy(to, from, static_cast<size_t>(count) * 4);
  } else if (type == PackedMatrix::f16) {
    kernels.to_f16(from, reinterpret_cast<uint16_t*>(to), count);
  } else if (type == PackedMatrix::e4m3) {
    std::transform(from, from + count, to, float_to_e4m3);
  } else if (type == PackedMatrix::e8m0) {
    std::transform(from, from + count, to, to_e8m0);
  } else {
    auto* h = reinterpret_cast<uint16_t*>(to);
    for (int64_t i = 0; i < count; i++) h[i] = float_to_bf16(from[i]);
  }
}
// Element i of the output of to_typed().
float from_typed(PackedMatrix::Kind type, const uint8_t* typed, size_t i) {
  if (type == PackedMatrix::e4m3) return e4m3_to_float(typed[i]);
  if (type == PackedMatrix::e8m0) return e8m0_to_float(typed[i]);
  if (type == PackedMatrix::f32) return reinterpret_cast<const float*>(typed)[i];
  const uint16_t half = reinterpret_cast<const uint16_t*>(typed)[i];
  return type == PackedMatrix::f16 ? f16_to_float(half) : bf16_to_float(half);
}

// Writes element i of a row to lane `lane` of vector i.
template <class T>
void scatter(const T* row, int64_t count, int lane, T* out) {
  for (int64_t i = 0; i < count; i++) out[i * kPanelRows + lane] = row[i];
}

// Packs `kWidth` bits, from bit `shift` on, of 32 codes into one lane of the vectors at `out`. A quad is half
// of a word of eight codes.
template <int kWidth>
void pack_plane(const uint64_t (&codes)[4], int shift, uint32_t* out) {
  constexpr uint64_t kMask = 0x0101010101010101u * ((1u << kWidth) - 1);
  uint64_t x[4];
  for (int i = 0; i < 4; i++) x[i] = (codes[i] >> shift) & kMask;
  if constexpr (kWidth == 8) {
    for (int i = 0; i < 4; i++) {
      out[2 * i * kPanelRows] = static_cast<uint32_t>(x[i]);
      out[(2 * i + 1) * kPanelRows] = static_cast<uint32_t>(x[i] >> 32);
    }
    return;
  }
  for (int i = 0; i < 4; i++) x[i] |= x[i] >> (32 - kWidth);  // the second quad above the first
  constexpr int kWords = kWidth == 4 ? 1 : kWidth == 2 ? 2 : 4;
  for (int i = 0; i < 4; i += kWords) {
    uint64_t v = x[i];
    for (int j = 1; j < kWords; j++) v |= x[i + j] << (2 * kWidth * j);
    out[i / kWords * kPanelRows] = static_cast<uint32_t>(v);
  }
}

// Packs 32 codes, which are one byte each here.
template <int kBits>
void pack_block(const uint8_t* codes, uint32_t* out) {
  uint64_t x[4];
  std::memcpy(x, codes, 32);
  if constexpr (kBits == 8) return pack_plane<8>(x, 0, out);
  constexpr int kFirst = kBits >= 4 ? 4 : 2, kSecond = kBits - kFirst;
  pack_plane<kFirst>(x, 0, out);
  if constexpr (kSecond > 0) pack_plane<kSecond>(x, kFirst, out + kFirst * kPanelRows);
}

template <int kBits>
void pack_codes(const PackedMatrix& m, const uint8_t* codes, int lane, uint8_t* out) {
  for (int64_t r = 0; r < m.records(); r++, out += m.record_bytes)
    for (int b = 0; b < m.record / 32; b++, codes += 32)
      pack_block<kBits>(codes, reinterpret_cast<uint32_t*>(out) + b * kBits * kPanelRows + lane);
}

void pack_codes(const PackedMatrix& m, const uint8_t* codes, int lane, uint8_t* out) {
  switch (m.bits) {
    case 2:
      return pack_codes<2>(m, codes, lane, out);
    case 3:
      return pack_codes<3>(m, codes, lane, out);
    case 4:
      return pack_codes<4>(m, codes, lane, out);
    case 5:
      return pack_codes<5>(m, codes, lane, out);
    case 6:
      return pack_codes<6>(m, codes, lane, out);
    case 8:
      return pack_codes<8>(m, codes, lane, out);
  }
}

// Transposes the first `count` columns of 16 rows that are `stride` elements apart.
template <class T>
void transpose(const T* rows, int64_t stride, int64_t count, T* panel) {
  for (int64_t k = 0; k < count; k++)
    for (int64_t r = 0; r < kPanelRows; r++) panel[k * kPanelRows + r] = rows[r * stride + k];
}

// Facts about the codes and scales, found while packing.
struct Findings {
  std::atomic<bool> inexact = false;  // a scale that its type and the factor cannot represent
  std::atomic<bool> nan = false;      // a code that is E4M3's NaN
};

// Rows of codes read from a source. Several at once, because some files (GPTQ, AWQ) store neighbouring rows
// side by side.
struct SourceRows {
  SourceRows(const WeightSource& from, bool block_scales) : source(from) {
    codes.resize(static_cast<size_t>(kReadRows * from.cols));
    groups = from.cols / from.group;
    scales.resize(static_cast<size_t>(kReadRows * groups));
    biases.resize(scales.size());
    if (!block_scales) return;
    blocks = from.cols / kScaleBlock;
    d.resize(static_cast<size_t>(kReadRows * blocks));
    dmin.resize(d.size());
    integers.resize(scales.size());
    mins.resize(scales.size());
  }

  void read(int64_t first, int64_t count) {
    source.read_codes(first, count, codes.data(), scales.data(), biases.data());
    if (blocks > 0)
      source.read_block_scales(first, count, {d.data(), dmin.data(), integers.data(), mins.data()});
  }

  static constexpr int64_t kReadRows = 4 * kPanelRows;
  const WeightSource& source;
  std::vector<uint8_t> codes;
  std::vector<float> scales, biases;
  int64_t groups = 0, blocks = 0;  // per row; blocks: 0 without block scales
  std::vector<uint16_t> d, dmin;
  std::vector<int8_t> integers;
  std::vector<uint8_t> mins;
};

// Packs one row of codes into a panel. Padding after its inputs is zero.
class CodedRow {
 public:
  CodedRow(const CpuKernels& kernels, const PackedMatrix& m, Findings& findings)
      : kernels_(kernels), m_(m), findings_(findings) {
    const auto groups = static_cast<size_t>(m.padded_cols / m.group);
    codes_.resize(static_cast<size_t>(m.padded_cols) * (m.kind == PackedMatrix::fp8 ? kPanelRows : 1));
    scales_.resize(groups);
    biases_.resize(groups);
    typed_.resize(groups * static_cast<size_t>(size_of(m.scale_type)));
  }

  // Packs row `i` of `rows`.
  void pack(const SourceRows& rows, int64_t i, int lane, uint8_t* panel) {
    const bool fp8 = m_.kind == PackedMatrix::fp8;
    uint8_t* codes = codes_.data() + (fp8 ? lane * m_.padded_cols : 0);
    std::copy_n(rows.codes.data() + i * m_.cols, m_.cols, codes);
    if (!fp8) pack_codes(m_, codes, lane, panel);
    if (m_.block_scales) return pack_block_scales(rows, i, lane, panel);
    std::copy_n(rows.scales.data() + i * rows.groups, rows.groups, scales_.data());
    put_scales(lane, panel + m_.scale_offset);
    if (m_.symmetric) return;
    std::copy_n(rows.biases.data() + i * rows.groups, rows.groups, biases_.data());
    put_typed(biases_, lane, panel + m_.bias_offset);
  }

  // Called after the last row of a panel. E4M3 codes were only collected so far: writes them to the panel.
  void finish(int count, uint8_t* panel) {
    if (m_.kind != PackedMatrix::fp8) return;
    std::fill(codes_.begin() + count * m_.padded_cols, codes_.end(), uint8_t{0});
    for (int64_t r = 0; r < m_.records(); r++)
      transpose(codes_.data() + r * m_.record, m_.padded_cols, m_.record, panel + r * m_.record_bytes);
    if (std::ranges::any_of(codes_, [](uint8_t code) { return (code & 0x7Fu) == 0x7F; }))
      findings_.nan = true;
  }

 private:
  // Rows with block scales need no padding.
  void pack_block_scales(const SourceRows& rows, int64_t i, int lane, uint8_t* panel) const {
    put_groups(rows.integers.data() + i * rows.groups, lane, panel + m_.scale_offset);
    put_factors(rows.d.data() + i * rows.blocks, lane, panel + m_.factor_offset);
    if (m_.symmetric) return;
    put_groups(rows.mins.data() + i * rows.groups, lane, panel + m_.bias_offset);
    put_factors(rows.dmin.data() + i * rows.blocks, lane,
                panel + m_.factor_offset + kPanelRows * sizeof(uint16_t));
  }

  void put_scales(int lane, uint8_t* out) {
    if (m_.kind == PackedMatrix::affine) return put_typed(scales_, lane, out);
    quotients_.resize(scales_.size());
    for (size_t i = 0; i < scales_.size(); i++) quotients_[i] = scales_[i] / m_.scale_factor;
    put_typed(quotients_, lane, out);
    for (size_t i = 0; i < scales_.size(); i++)
      if (from_typed(m_.scale_type, typed_.data(), i) * m_.scale_factor != scales_[i])
        findings_.inexact = true;
  }

  void put_typed(const std::vector<float>& values, int lane, uint8_t* out) {
    to_typed(kernels_, m_.scale_type, values.data(), static_cast<int64_t>(values.size()), typed_.data());
    const int size = size_of(m_.scale_type);
    size == 4   ? put_groups(reinterpret_cast<const uint32_t*>(typed_.data()), lane, out)
    : size == 2 ? put_groups(reinterpret_cast<const uint16_t*>(typed_.data()), lane, out)
                : put_groups(typed_.data(), lane, out);
  }

  // Writes one value per group.
  template <class T>
  void put_groups(const T* values, int lane, uint8_t* out) const {
    const int64_t count = m_.record / m_.group;
    for (int64_t r = 0; r < m_.records(); r++, out += m_.record_bytes, values += count)
      scatter(values, count, lane, reinterpret_cast<T*>(out));
  }

  // Writes one factor per record.
  void put_factors(const uint16_t* values, int lane, uint8_t* out) const {
    for (int64_t r = 0; r < m_.records(); r++, out += m_.record_bytes)
      reinterpret_cast<uint16_t*>(out)[lane] = values[r];
  }

  const CpuKernels& kernels_;
  const PackedMatrix& m_;
  Findings& findings_;
  std::vector<uint8_t> codes_;  // of a row; for E4M3 numbers, of a panel
  std::vector<uint8_t> typed_;
  std::vector<float> scales_, biases_, quotients_;
};

void pack_coded_panels(const CpuKernels& kernels, const WeightSource& source, const PackedMatrix& m,
                       int64_t begin, int64_t end, Findings& findings) {
  SourceRows rows(source, m.block_scales);
  CodedRow row(kernels, m, findings);
  const int64_t last = std::min(end * kPanelRows, source.rows);
  for (int64_t p = begin; p < end; p++) {
    const int64_t first = p * kPanelRows, count = std::min<int64_t>(kPanelRows, source.rows - first);
    const int64_t at = (p - begin) * kPanelRows % SourceRows::kReadRows;
    if (at == 0) rows.read(first, std::min(SourceRows::kReadRows, last - first));
    uint8_t* panel = const_cast<uint8_t*>(m.data) + p * m.panel_bytes;
    if (count < kPanelRows) std::memset(panel, 0, static_cast<size_t>(m.panel_bytes));
    for (int r = 0; r < count; r++) row.pack(rows, at + r, r, panel);
    row.finish(static_cast<int>(count), panel);
  }
}

void pack_dense_panels(const CpuKernels& kernels, const WeightSource& source, const PackedMatrix& m,
                       int64_t begin, int64_t end) {
  const int size = size_of(m.kind);
  std::vector<float> values(static_cast<size_t>(kPanelRows * source.cols));
  std::vector<uint8_t> rows(static_cast<size_t>(m.panel_bytes));
  for (int64_t p = begin; p < end; p++) {
    const int64_t first = p * kPanelRows, count = std::min<int64_t>(kPanelRows, source.rows - first);
    if (count < kPanelRows) std::fill(rows.begin(), rows.end(), uint8_t{0});
    source.read_dense(first, count, values.data());
    for (int64_t r = 0; r < count; r++)
      to_typed(kernels, m.kind, values.data() + r * source.cols, source.cols,
               rows.data() + r * m.padded_cols * size);
    uint8_t* panel = const_cast<uint8_t*>(m.data) + p * m.panel_bytes;
    const int64_t n = m.padded_cols;
    size == 4
        ? transpose(reinterpret_cast<const uint32_t*>(rows.data()), n, n, reinterpret_cast<uint32_t*>(panel))
        : transpose(reinterpret_cast<const uint16_t*>(rows.data()), n, n, reinterpret_cast<uint16_t*>(panel));
  }
}

// Sets the offsets of scales, biases and factors within a record.
void lay_out_record(PackedMatrix& m) {
  m.record = m.block_scales ? kScaleBlock : std::max(m.group, 32);
  const int scale_bytes = (m.block_scales ? 1 : size_of(m.scale_type)) * kPanelRows * (m.record / m.group);
  const int factor_bytes = m.block_scales ? 2 * kPanelRows : 0, both = m.symmetric ? 1 : 2;
  m.factor_offset = m.record / 32 * 64 * m.bits;
  m.scale_offset = m.factor_offset + both * factor_bytes;
  m.bias_offset = m.scale_offset + scale_bytes;
  m.record_bytes = m.scale_offset + both * scale_bytes;
}

// Sets the table in the format that kernels read.
void set_table(PackedMatrix& m, const CodeTable& table) {
  for (size_t i = 0; i < table.size(); i++) {
    m.values[i] = static_cast<uint8_t>(table[i] + 128);
    m.most = std::max(m.most, table[i] < 0 ? -table[i] : table[i] + 1);
  }
}

// fp32_scales: use fp32, whatever type the source states.
PackedMatrix layout_of(const WeightSource& source, bool fp32_scales) {
  PackedMatrix m;
  m.rows = source.rows;
  m.cols = source.cols;
  m.kind = kind_of(source.kind);
  if (!m.coded()) {
    m.padded_cols = (source.cols + 31) / 32 * 32;
    m.panel_bytes = m.padded_cols * kPanelRows * size_of(m.kind);
    return m;
  }
  m.bits = source.bits;
  m.group = source.group;
  m.block_scales = source.read_block_scales != nullptr;
  m.scale_type = fp32_scales ? PackedMatrix::f32 : kind_of(source.scale_type);
  if (m.block_scales || m.scale_type != PackedMatrix::f32) m.scale_factor = source.scale_factor;
  m.symmetric = source.symmetric;
  m.zero_point = static_cast<float>(source.zero_point);
  if (m.kind == PackedMatrix::table) set_table(m, source.table);
  lay_out_record(m);
  m.padded_cols = (source.cols + m.record - 1) / m.record * m.record;
  m.panel_bytes = m.records() * m.record_bytes;
  return m;
}

// Packs the source in this layout. Returns null if some scale needs fp32.
std::shared_ptr<const PackedWeight> pack_as(CpuDevice& device, const WeightSource& source,
                                            const PackedMatrix& layout) {
  const CpuKernels& kernels = device.kernels();
  auto weight = std::make_shared<PackedWeight>();
  PackedMatrix& m = weight->matrix;
  m = layout;
  weight->bytes = static_cast<uint64_t>(m.panels() * m.panel_bytes);
  weight->memory = allocate_large(weight->bytes);
  m.data = static_cast<const uint8_t*>(weight->memory.get());
  const int64_t grain = std::max<int64_t>(1, m.panels() / 64);
  Findings findings;
  device.threads().parallel_for(m.panels(), grain, [&](int64_t begin, int64_t end) {
    m.coded() ? pack_coded_panels(kernels, source, m, begin, end, findings)
              : pack_dense_panels(kernels, source, m, begin, end);
  });
  if (findings.inexact && m.scale_type != PackedMatrix::f32) return nullptr;
  m.has_nan = findings.nan;
  return weight;
}

}  // namespace

// Falls back to fp32 if the scale type cannot represent a scale: the scale is NaN, or the factor takes it out
// of fp32's range.
std::shared_ptr<const PackedWeight> pack(CpuDevice& device, const WeightSource& source) {
  auto weight = pack_as(device, source, layout_of(source, false));
  return weight ? weight : pack_as(device, source, layout_of(source, true));
}

}  // namespace anabranch::ops::cpu
