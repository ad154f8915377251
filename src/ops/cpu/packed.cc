#include "ops/cpu/packed.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "ops/cpu/device.h"

namespace anabranch::ops::cpu {
namespace {

PackedMatrix::Kind kind_of(ScaleType type) {
  return type == ScaleType::f16    ? PackedMatrix::f16
         : type == ScaleType::bf16 ? PackedMatrix::bf16
                                   : PackedMatrix::f32;
}
PackedMatrix::Kind kind_of(WeightKind kind) {
  switch (kind) {
    case WeightKind::affine:
      return PackedMatrix::affine;
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
  return kind == PackedMatrix::f32 ? 4 : 2;
}

// A float that the narrow type holds exactly (or the nearest, ties to even).
uint16_t to_bf16(float x) {
  uint32_t u;
  std::memcpy(&u, &x, 4);
  if ((u & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>((u >> 16) | 0x40u);
  return static_cast<uint16_t>((u + 0x7FFFu + ((u >> 16) & 1u)) >> 16);
}

void store_typed(const CpuKernels& kernels, uint8_t* base, int64_t index, PackedMatrix::Kind type,
                 float value) {
  if (type == PackedMatrix::f32) {
    std::memcpy(base + index * 4, &value, 4);
    return;
  }
  uint16_t h;
  if (type == PackedMatrix::bf16)
    h = to_bf16(value);
  else
    kernels.to_f16(&value, &h, 1);
  std::memcpy(base + index * 2, &h, 2);
}

// Ors code words (one per row: 4 consecutive codes) of plane `width` bits into the vectors at `out`; shift:
// where the plane's bits lie in the code.
void pack_plane(const uint32_t words[8][kPanelRows], int width, int shift, uint32_t* out) {
  const int quads = 8 / width;
  const uint32_t mask = 0x01010101u * ((1u << width) - 1);
  for (int q = 0; q < 8; q += quads) {
    for (int r = 0; r < kPanelRows; r++) {
      uint32_t v = 0;
      for (int i = 0; i < quads; i++) v |= ((words[q + i][r] >> shift) & mask) << (width * i);
      out[q / quads * kPanelRows + r] = v;
    }
  }
}

void pack_block(const uint32_t words[8][kPanelRows], int bits, uint8_t* out) {
  uint32_t* o = reinterpret_cast<uint32_t*>(out);
  switch (bits) {
    case 2:
      return pack_plane(words, 2, 0, o);
    case 3:
      return pack_plane(words, 2, 0, o), pack_plane(words, 1, 2, o + 32);
    case 4:
      return pack_plane(words, 4, 0, o);
    case 5:
      return pack_plane(words, 4, 0, o), pack_plane(words, 1, 4, o + 64);
    case 6:
      return pack_plane(words, 4, 0, o), pack_plane(words, 2, 4, o + 64);
    case 8:
      return pack_plane(words, 8, 0, o);
  }
}

// Work space of one thread for one panel.
struct Rows {
  std::vector<uint8_t> codes;
  std::vector<float> scales, biases, values;
  std::vector<uint16_t> d, dmin;  // block scales
  std::vector<int8_t> integers;
  std::vector<uint8_t> mins;
};

Rows make_rows(const WeightSource& source, const PackedMatrix& m) {
  Rows rows;
  const auto size = [](int64_t per_row) { return static_cast<size_t>(kPanelRows * per_row); };
  if (m.kind != PackedMatrix::affine) {
    rows.values.resize(size(source.cols));
    return rows;
  }
  rows.codes.resize(size(source.cols));
  rows.scales.resize(size(source.cols / source.group));
  rows.biases.resize(size(source.cols / source.group));
  if (!m.block_scales) return rows;
  rows.d.resize(size(source.cols / kScaleBlock));
  rows.dmin.resize(size(source.cols / kScaleBlock));
  rows.integers.resize(size(source.cols / source.group));
  rows.mins.resize(size(source.cols / source.group));
  return rows;
}

// Codes of 32 inputs from k on, `count` rows.
void pack_codes(const WeightSource& source, const Rows& rows, int64_t count, int64_t k, int bits,
                uint8_t* out) {
  uint32_t words[8][kPanelRows] = {};
  const int64_t quads = std::min<int64_t>(8, (source.cols - k) / 4);
  for (int r = 0; r < count; r++) {
    const uint8_t* from = rows.codes.data() + r * source.cols + k;
    for (int64_t q = 0; q < quads; q++) std::memcpy(&words[q][r], from + 4 * q, 4);
  }
  pack_block(words, bits, out);
}

// Scales and biases of one record.
void pack_scales(const CpuKernels& kernels, const WeightSource& source, const PackedMatrix& m,
                 const Rows& rows, int64_t count, int64_t record, uint8_t* out) {
  const int64_t groups = source.cols / source.group, per_record = m.record / m.group;
  for (int64_t g = 0; g < per_record; g++) {
    const int64_t from = record * per_record + g;
    for (int r = 0; r < kPanelRows; r++) {
      const bool real = r < count && from < groups;
      const int64_t to = g * kPanelRows + r, at = r * groups + from;
      if (m.block_scales) {
        out[m.scale_offset + to] = real ? static_cast<uint8_t>(rows.integers[at]) : 0;
        if (!m.symmetric) out[m.bias_offset + to] = real ? rows.mins[at] : 0;
      } else {
        store_typed(kernels, out + m.scale_offset, to, m.scale_type, real ? rows.scales[at] : 0.0f);
        if (!m.symmetric)
          store_typed(kernels, out + m.bias_offset, to, m.scale_type, real ? rows.biases[at] : 0.0f);
      }
    }
  }
  if (!m.block_scales) return;
  auto* factors = reinterpret_cast<uint16_t*>(out + m.factor_offset);
  const int64_t blocks = source.cols / kScaleBlock;
  for (int r = 0; r < kPanelRows; r++) {
    factors[r] = r < count ? rows.d[r * blocks + record] : 0;
    if (!m.symmetric) factors[kPanelRows + r] = r < count ? rows.dmin[r * blocks + record] : 0;
  }
}

void pack_affine_panel(const CpuKernels& kernels, const WeightSource& source, const PackedMatrix& m,
                       int64_t panel, Rows& rows) {
  const int64_t first = panel * kPanelRows, count = std::min<int64_t>(kPanelRows, source.rows - first);
  source.read_affine(first, count, rows.codes.data(), rows.scales.data(), rows.biases.data());
  if (m.block_scales)
    source.read_block_scales(first, count,
                             {rows.d.data(), rows.dmin.data(), rows.integers.data(), rows.mins.data()});
  uint8_t* out = const_cast<uint8_t*>(m.data) + panel * m.panel_bytes;
  for (int64_t r = 0; r < m.records(); r++, out += m.record_bytes) {
    for (int64_t b = 0; b < m.record / 32; b++)
      pack_codes(source, rows, count, r * m.record + b * 32, m.bits, out + b * 64 * m.bits);
    pack_scales(kernels, source, m, rows, count, r, out);
  }
}

void pack_dense_panel(const CpuKernels& kernels, const WeightSource& source, const PackedMatrix& m,
                      int64_t panel, Rows& rows) {
  const int64_t first = panel * kPanelRows, count = std::min<int64_t>(kPanelRows, source.rows - first);
  source.read_dense(first, count, rows.values.data());
  uint8_t* out = const_cast<uint8_t*>(m.data) + panel * m.panel_bytes;
  for (int64_t k = 0; k < m.padded_cols; k++) {
    for (int r = 0; r < kPanelRows; r++) {
      const bool real = r < count && k < source.cols;
      store_typed(kernels, out, k * kPanelRows + r, m.kind, real ? rows.values[r * source.cols + k] : 0.0f);
    }
  }
}

// Where scales, biases and factors lie in a record.
void lay_out_record(PackedMatrix& m) {
  m.record = m.block_scales ? kScaleBlock : std::max(m.group, 32);
  const int scale_bytes = (m.block_scales ? 1 : size_of(m.scale_type)) * kPanelRows * (m.record / m.group);
  const int factor_bytes = m.block_scales ? 2 * kPanelRows : 0, both = m.symmetric ? 1 : 2;
  m.factor_offset = m.record / 32 * 64 * m.bits;
  m.scale_offset = m.factor_offset + both * factor_bytes;
  m.bias_offset = m.scale_offset + scale_bytes;
  m.record_bytes = m.scale_offset + both * scale_bytes;
}

PackedMatrix layout_of(const WeightSource& source) {
  PackedMatrix m;
  m.rows = source.rows;
  m.cols = source.cols;
  m.kind = kind_of(source.kind);
  if (m.kind != PackedMatrix::affine) {
    m.padded_cols = (source.cols + 31) / 32 * 32;
    m.panel_bytes = m.padded_cols * kPanelRows * size_of(m.kind);
    return m;
  }
  m.bits = source.bits;
  m.group = source.group;
  m.scale_type = kind_of(source.scale_type);
  m.block_scales = source.read_block_scales != nullptr;
  m.symmetric = source.symmetric;
  m.zero_point = static_cast<float>(source.zero_point);
  lay_out_record(m);
  m.padded_cols = (source.cols + m.record - 1) / m.record * m.record;
  m.panel_bytes = m.records() * m.record_bytes;
  return m;
}

}  // namespace

std::shared_ptr<const PackedWeight> pack(CpuDevice& device, const WeightSource& source) {
  const CpuKernels& kernels = device.kernels();
  auto weight = std::make_shared<PackedWeight>();
  PackedMatrix& m = weight->matrix;
  m = layout_of(source);
  weight->bytes = static_cast<uint64_t>(m.panels() * m.panel_bytes);
  weight->memory = allocate_large(weight->bytes);
  m.data = static_cast<const uint8_t*>(weight->memory.get());
  const int64_t grain = std::max<int64_t>(1, m.panels() / 64);
  device.threads().parallel_for(m.panels(), grain, [&](int64_t begin, int64_t end) {
    Rows rows = make_rows(source, m);
    for (int64_t p = begin; p < end; p++)
      m.kind == PackedMatrix::affine ? pack_affine_panel(kernels, source, m, p, rows)
                                     : pack_dense_panel(kernels, source, m, p, rows);
  });
  return weight;
}

}  // namespace anabranch::ops::cpu
