#include "checkpoint/gguf_blocks.h"

#include <cstring>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/float16.h"
#include "checkpoint/dense.h"
#include "checkpoint/gguf_tables.h"

namespace anabranch {

namespace {

float half_at(const uint8_t* p) {
  uint16_t bits;
  std::memcpy(&bits, p, 2);
  return f16_to_float(bits);
}

// 32 nibbles: the low ones are weights 0..15, the high ones 16..31.
void low_then_high(const uint8_t* bytes, uint8_t* codes) {
  for (int i = 0; i < 16; i++) {
    codes[i] = bytes[i] & 15;
    codes[i + 16] = bytes[i] >> 4;
  }
}

void add_fifth_bits(const uint8_t* bits, uint8_t* codes) {
  uint32_t high;
  std::memcpy(&high, bits, 4);
  for (int i = 0; i < 32; i++) codes[i] |= static_cast<uint8_t>(((high >> i) & 1) << 4);
}

void decode_q4_0(const uint8_t* b, uint8_t* codes, float* scales, float*) {
  scales[0] = half_at(b);
  low_then_high(b + 2, codes);
}

void decode_q4_1(const uint8_t* b, uint8_t* codes, float* scales, float* biases) {
  scales[0] = half_at(b);
  biases[0] = half_at(b + 2);
  low_then_high(b + 4, codes);
}

void decode_q5_0(const uint8_t* b, uint8_t* codes, float* scales, float*) {
  scales[0] = half_at(b);
  low_then_high(b + 6, codes);
  add_fifth_bits(b + 2, codes);
}

void decode_q5_1(const uint8_t* b, uint8_t* codes, float* scales, float* biases) {
  scales[0] = half_at(b);
  biases[0] = half_at(b + 2);
  low_then_high(b + 8, codes);
  add_fifth_bits(b + 4, codes);
}

void decode_q8_0(const uint8_t* b, uint8_t* codes, float* scales, float*) {
  scales[0] = half_at(b);
  for (int i = 0; i < 32; i++) codes[i] = b[2 + i] ^ 0x80;  // int8 + 128
}

// Computes scales and biases for decode(): K-quants have integers for `kGroups` groups, and common factors.
template <int kGroups>
void multiply_scales(void (*decode_scales)(const uint8_t*, const BlockScales&), const uint8_t* block,
                     float* scales, float* biases) {
  uint16_t d = 0, dmin = 0;
  int8_t s[kGroups];
  uint8_t m[kGroups] = {};
  decode_scales(block, {&d, &dmin, s, m});
  const float factor = f16_to_float(d), min_factor = f16_to_float(dmin);
  for (int g = 0; g < kGroups; g++) {
    scales[g] = factor * static_cast<float>(s[g]);
    if (biases) biases[g] = -(min_factor * static_cast<float>(m[g]));
  }
}

// scales[16] (4 bits scale, 4 bits min), qs[64], d, dmin
void scales_q2_k(const uint8_t* b, const BlockScales& out) {
  std::memcpy(out.d, b + 80, 2);
  std::memcpy(out.dmin, b + 82, 2);
  for (int g = 0; g < 16; g++) {
    out.scales[g] = static_cast<int8_t>(b[g] & 15);
    out.mins[g] = b[g] >> 4;
  }
}

void decode_q2_k(const uint8_t* b, uint8_t* codes, float* scales, float* biases) {
  multiply_scales<16>(scales_q2_k, b, scales, biases);
  const uint8_t* qs = b + 16;
  for (int half = 0; half < 2; half++)
    for (int k = 0; k < 4; k++)
      for (int i = 0; i < 32; i++) codes[half * 128 + k * 32 + i] = (qs[half * 32 + i] >> (2 * k)) & 3;
}

// hmask[32], qs[64], scales[12] (16 of 6 bits, offset 32), d
void scales_q3_k(const uint8_t* b, const BlockScales& out) {
  const uint8_t* packed = b + 96;
  std::memcpy(out.d, b + 108, 2);
  for (int g = 0; g < 16; g++) {
    const int low = g < 8 ? packed[g] & 15 : packed[g - 8] >> 4;
    const int high = (packed[8 + g % 4] >> (2 * (g / 4))) & 3;
    out.scales[g] = static_cast<int8_t>((low | high << 4) - 32);
  }
}

void decode_q3_k(const uint8_t* b, uint8_t* codes, float* scales, float*) {
  multiply_scales<16>(scales_q3_k, b, scales, nullptr);
  const uint8_t *hmask = b, *qs = b + 32;
  for (int half = 0; half < 2; half++)
    for (int k = 0; k < 4; k++)
      for (int i = 0; i < 32; i++)
        codes[half * 128 + k * 32 + i] = static_cast<uint8_t>(((qs[half * 32 + i] >> (2 * k)) & 3) |
                                                              ((hmask[i] >> (half * 4 + k)) & 1) << 2);
}

// Q4_K and Q5_K: d, dmin, then 8 scales and 8 mins of 6 bits in 12 bytes
void scales_q4_k(const uint8_t* b, const BlockScales& out) {
  std::memcpy(out.d, b, 2);
  std::memcpy(out.dmin, b + 2, 2);
  const uint8_t* s = b + 4;
  for (int g = 0; g < 8; g++) {
    out.scales[g] = static_cast<int8_t>(g < 4 ? s[g] & 63 : (s[g + 4] & 15) | (s[g - 4] >> 6) << 4);
    out.mins[g] = static_cast<uint8_t>(g < 4 ? s[g + 4] & 63 : (s[g + 4] >> 4) | (s[g] >> 6) << 4);
  }
}

void decode_q4_k(const uint8_t* b, uint8_t* codes, float* scales, float* biases) {
  multiply_scales<8>(scales_q4_k, b, scales, biases);
  const uint8_t* qs = b + 16;
  for (int g = 0; g < 8; g++)
    for (int i = 0; i < 32; i++) codes[g * 32 + i] = (qs[g / 2 * 32 + i] >> (g % 2 * 4)) & 15;
}

void decode_q5_k(const uint8_t* b, uint8_t* codes, float* scales, float* biases) {
  multiply_scales<8>(scales_q4_k, b, scales, biases);
  const uint8_t *qh = b + 16, *qs = b + 48;
  for (int g = 0; g < 8; g++)
    for (int i = 0; i < 32; i++)
      codes[g * 32 + i] =
          static_cast<uint8_t>(((qs[g / 2 * 32 + i] >> (g % 2 * 4)) & 15) | ((qh[i] >> g) & 1) << 4);
}

// ql[128], qh[64], scales[16] (int8), d
void scales_q6_k(const uint8_t* b, const BlockScales& out) {
  std::memcpy(out.d, b + 208, 2);
  std::memcpy(out.scales, b + 192, 16);
}

void decode_q6_k(const uint8_t* b, uint8_t* codes, float* scales, float*) {
  multiply_scales<16>(scales_q6_k, b, scales, nullptr);
  const uint8_t *ql = b, *qh = b + 128;
  for (int half = 0; half < 2; half++)
    for (int k = 0; k < 4; k++)
      for (int i = 0; i < 32; i++)
        codes[half * 128 + k * 32 + i] =
            static_cast<uint8_t>(((ql[half * 64 + k % 2 * 32 + i] >> (k / 2 * 4)) & 15) |
                                 ((qh[half * 32 + i] >> (2 * k)) & 3) << 4);
}

// K-quants have f32 scales here, because f16 cannot hold the products d * scale.
constexpr GgufType kTypes[] = {
    {0, "F32", 1, 4, WeightKind::f32},
    {1, "F16", 1, 2, WeightKind::f16},
    {30, "BF16", 1, 2, WeightKind::bf16},
    {2, "Q4_0", 32, 18, WeightKind::affine, 4, 32, ScaleType::f16, true, 8, decode_q4_0},
    {3, "Q4_1", 32, 20, WeightKind::affine, 4, 32, ScaleType::f16, false, 0, decode_q4_1},
    {6, "Q5_0", 32, 22, WeightKind::affine, 5, 32, ScaleType::f16, true, 16, decode_q5_0},
    {7, "Q5_1", 32, 24, WeightKind::affine, 5, 32, ScaleType::f16, false, 0, decode_q5_1},
    {8, "Q8_0", 32, 34, WeightKind::affine, 8, 32, ScaleType::f16, true, 128, decode_q8_0},
    {10, "Q2_K", 256, 84, WeightKind::affine, 2, 16, ScaleType::f32, false, 0, decode_q2_k, scales_q2_k},
    {11, "Q3_K", 256, 110, WeightKind::affine, 3, 16, ScaleType::f32, true, 4, decode_q3_k, scales_q3_k},
    {12, "Q4_K", 256, 144, WeightKind::affine, 4, 32, ScaleType::f32, false, 0, decode_q4_k, scales_q4_k},
    {13, "Q5_K", 256, 176, WeightKind::affine, 5, 32, ScaleType::f32, false, 0, decode_q5_k, scales_q4_k},
    {14, "Q6_K", 256, 210, WeightKind::affine, 6, 16, ScaleType::f32, true, 32, decode_q6_k, scales_q6_k},
};

constexpr std::pair<uint32_t, const char*> kOthers[] = {{9, "Q8_1"}, {15, "Q8_K"}, {24, "I8"}, {25, "I16"},
                                                        {26, "I32"}, {27, "I64"},  {28, "F64"}};

template <class Is>
const GgufType* find_type(const Is& is_it) {
  for (const std::span<const GgufType> types : {std::span<const GgufType>(kTypes), gguf_table_types()})
    for (const GgufType& type : types)
      if (is_it(type)) return &type;
  return nullptr;
}

}  // namespace

const GgufType* find_gguf_type(uint32_t id) {
  return find_type([&](const GgufType& type) { return type.id == id; });
}

const GgufType* find_gguf_type(std::string_view name) {
  return find_type([&](const GgufType& type) { return type.name == name; });
}

std::string gguf_type_name(uint32_t id) {
  if (const GgufType* type = find_gguf_type(id)) return type->name;
  for (const auto& [other, name] : kOthers)
    if (other == id) return name;
  return "number " + std::to_string(id);
}

WeightSource gguf_source(const GgufType& type, const std::byte* data, int64_t rows, int64_t cols,
                         std::shared_ptr<const void> keep) {
  if (!is_coded(type.kind)) return dense_source(type.kind, data, rows, cols, std::move(keep));
  CHECK(cols % type.block == 0, "{} columns of {}", cols, type.name);
  WeightSource source;
  source.rows = rows;
  source.cols = cols;
  source.kind = type.kind;
  source.bits = type.bits;
  source.group = type.group;
  source.scale_type = type.scale_type;
  source.symmetric = type.symmetric;
  source.zero_point = type.zero_point;
  source.table = type.table;
  source.scale_factor = type.scale_factor;
  source.read_codes = [&type, data, cols, keep](int64_t first, int64_t count, uint8_t* codes, float* scales,
                                                float* biases) {
    const int64_t blocks = cols / type.block, groups = type.block / type.group;
    const auto* block = reinterpret_cast<const uint8_t*>(data) + first * blocks * type.bytes;
    for (int64_t i = 0; i < count * blocks; i++, block += type.bytes) {
      type.decode(block, codes, scales, biases);
      codes += type.block;
      scales += groups;
      if (!type.symmetric) biases += groups;
    }
  };
  if (!type.decode_scales) return source;
  source.read_block_scales = [&type, data, cols, keep](int64_t first, int64_t count, const BlockScales& out) {
    const int64_t blocks = cols / type.block, groups = type.block / type.group;
    const auto* block = reinterpret_cast<const uint8_t*>(data) + first * blocks * type.bytes;
    for (int64_t i = 0; i < count * blocks; i++, block += type.bytes)
      type.decode_scales(block, {out.d + i, out.dmin + i, out.scales + i * groups, out.mins + i * groups});
  };
  return source;
}

}  // namespace anabranch
