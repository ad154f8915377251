#include "ops/cpu/packed.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/thread_pool.h"

namespace anabranch::ops::cpu {
namespace {

std::shared_ptr<void> allocate(uint64_t bytes) {
  constexpr uint64_t kHuge = 2u << 20;
  const uint64_t align = bytes >= kHuge ? kHuge : 64;
  const uint64_t size = (bytes + align - 1) / align * align;
  void* p = std::aligned_alloc(align, size);
  CHECK(p != nullptr, "out of memory for a weight of {} bytes", bytes);
#if defined(__linux__)
  // 4 KiB pages cost a fifth of the bandwidth of a matrix that is streamed once a token.
  if (align == kHuge) madvise(p, size, MADV_HUGEPAGE);
#endif
  return {p, [](void* q) { std::free(q); }};
}

// A float that the narrow type holds exactly (or the nearest, ties to even).
uint16_t to_bf16(float x) {
  uint32_t u;
  std::memcpy(&u, &x, 4);
  if ((u & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>((u >> 16) | 0x40u);
  return static_cast<uint16_t>((u + 0x7FFFu + ((u >> 16) & 1u)) >> 16);
}

void store_typed(uint8_t* base, int64_t index, PackedMatrix::Kind type, float value) {
  if (type == PackedMatrix::f32) {
    std::memcpy(base + index * 4, &value, 4);
    return;
  }
  uint16_t h;
  if (type == PackedMatrix::bf16)
    h = to_bf16(value);
  else
    kernels().to_f16(&value, &h, 1);
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
};

void pack_affine_panel(const WeightSource& source, const PackedMatrix& m, int64_t panel, Rows& rows) {
  const int64_t first = panel * kPanelRows, count = std::min<int64_t>(kPanelRows, source.rows - first);
  const int64_t groups = source.cols / source.group, stride = m.padded_cols;
  if (count < kPanelRows || stride != source.cols)
    std::fill(rows.codes.begin(), rows.codes.end(), uint8_t{0});
  source.read_affine(first, count, rows.codes.data(), rows.scales.data(), rows.biases.data());
  uint8_t* out = const_cast<uint8_t*>(m.data) + panel * m.panel_bytes;
  for (int64_t b = 0; b < m.padded_cols / 32; b++) {
    uint32_t words[8][kPanelRows] = {};
    for (int r = 0; r < count; r++) {
      const uint8_t* from = rows.codes.data() + r * source.cols + b * 32;
      const int64_t quads = std::min<int64_t>(8, (source.cols - b * 32) / 4);
      for (int64_t q = 0; q < quads; q++) std::memcpy(&words[q][r], from + 4 * q, 4);
    }
    pack_block(words, m.bits, out + b * 64 * m.bits);
  }
  for (int64_t g = 0; g < m.groups(); g++) {
    for (int r = 0; r < kPanelRows; r++) {
      const bool real = r < count && g < groups;
      const int64_t at = g * kPanelRows + r;
      store_typed(out + m.scale_offset, at, m.scale_type, real ? rows.scales[r * groups + g] : 0.0f);
      if (!m.symmetric)
        store_typed(out + m.bias_offset, at, m.scale_type, real ? rows.biases[r * groups + g] : 0.0f);
    }
  }
}

void pack_dense_panel(const WeightSource& source, const PackedMatrix& m, int64_t panel, Rows& rows) {
  const int64_t first = panel * kPanelRows, count = std::min<int64_t>(kPanelRows, source.rows - first);
  source.read_dense(first, count, rows.values.data());
  uint8_t* out = const_cast<uint8_t*>(m.data) + panel * m.panel_bytes;
  for (int64_t k = 0; k < m.padded_cols; k++) {
    for (int r = 0; r < kPanelRows; r++) {
      const bool real = r < count && k < source.cols;
      store_typed(out, k * kPanelRows + r, m.kind, real ? rows.values[r * source.cols + k] : 0.0f);
    }
  }
}

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
int64_t size_of(PackedMatrix::Kind kind) {
  return kind == PackedMatrix::f32 ? 4 : 2;
}

PackedMatrix layout_of(const WeightSource& source) {
  PackedMatrix m;
  m.rows = source.rows;
  m.cols = source.cols;
  m.padded_cols = (source.cols + 31) / 32 * 32;
  m.kind = kind_of(source.kind);
  if (source.kind != WeightKind::affine) {
    m.panel_bytes = m.padded_cols * kPanelRows * size_of(m.kind);
    return m;
  }
  m.bits = source.bits;
  m.group = source.group;
  m.scale_type = kind_of(source.scale_type);
  m.symmetric = source.symmetric;
  m.zero_point = static_cast<float>(source.zero_point);
  m.scale_offset = m.padded_cols / 32 * 64 * m.bits;
  const int64_t scales = m.groups() * kPanelRows * size_of(m.scale_type);
  m.bias_offset = m.scale_offset + scales;
  m.panel_bytes = (m.bias_offset + (m.symmetric ? 0 : scales) + 63) / 64 * 64;
  return m;
}

}  // namespace

std::shared_ptr<const PackedWeight> pack(const WeightSource& source) {
  auto weight = std::make_shared<PackedWeight>();
  PackedMatrix& m = weight->matrix;
  m = layout_of(source);
  weight->bytes = static_cast<uint64_t>(m.panels() * m.panel_bytes);
  weight->memory = allocate(weight->bytes + 64);
  m.data = static_cast<const uint8_t*>(weight->memory.get());
  const int64_t grain = std::max<int64_t>(1, m.panels() / 64);
  parallel_for(m.panels(), grain, [&](int64_t begin, int64_t end) {
    Rows rows;
    if (m.kind == PackedMatrix::affine) {
      const auto groups = static_cast<size_t>(source.cols / source.group);
      rows.codes.resize(static_cast<size_t>(kPanelRows * source.cols));
      rows.scales.resize(kPanelRows * groups);
      rows.biases.resize(kPanelRows * groups);
      for (int64_t p = begin; p < end; p++) pack_affine_panel(source, m, p, rows);
    } else {
      rows.values.resize(static_cast<size_t>(kPanelRows * source.cols));
      for (int64_t p = begin; p < end; p++) pack_dense_panel(source, m, p, rows);
    }
  });
  return weight;
}

}  // namespace anabranch::ops::cpu
