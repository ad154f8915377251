#include "checkpoint/gguf_tables.h"

#include <bit>
#include <cstring>

#include "base/float16.h"
#include "base/float8.h"
#include "checkpoint/gguf_grids.h"
#include "checkpoint/quantized/float4.h"

namespace anabranch {

namespace {

// The sign of a code is its bit 3.
constexpr CodeTable kIq2Table{8, 25, 43, 0, 0, 0, 0, 0, -8, -25, -43, 0, 0, 0, 0, 0};
constexpr CodeTable kIq3XxsTable{4, 12, 20, 28, 36, 44, 52, 62, -4, -12, -20, -28, -36, -44, -52, -62};
constexpr CodeTable kIq3STable{1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15};
constexpr CodeTable kIq4Table{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
// Eight times the weights: -1, 0, 1 plus an eighth for codes 0 to 2, and minus an eighth for codes 4 to 6.
constexpr CodeTable kIq1Table{-7, 1, 9, 0, -9, -1, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0};

template <class T>
T at(const uint8_t* p) {
  T value;
  std::memcpy(&value, p, sizeof(value));
  return value;
}

int8_t nibble(const uint8_t* bytes, int i) {
  return static_cast<int8_t>((bytes[i / 2] >> (i % 2 * 4)) & 15);
}

void low_then_high(const uint8_t* bytes, int half, uint8_t* codes) {
  for (int i = 0; i < half; i++) {
    codes[i] = bytes[i] & 15;
    codes[i + half] = bytes[i] >> 4;
  }
}

// Eight signs by an index of 7 bits: the number of minus signs is even.
uint32_t even_signs(uint32_t index) {
  index &= 127;
  return index | (std::popcount(index) & 1u) << 7;
}

// kWeights codes of a grid's entry, `width` bits each, with signs.
template <int kWeights, int kWidth>
void put_entry(uint16_t entry, uint32_t signs, uint8_t* codes) {
  constexpr int kMask = (1 << kWidth) - 1;
  for (int i = 0; i < kWeights; i++)
    codes[i] = static_cast<uint8_t>(((entry >> (i * kWidth)) & kMask) | ((signs >> i) & 1) << 3);
}

// scales[g] = d * integer * factor.
template <int kGroups>
void multiply(void (*decode_scales)(const uint8_t*, const BlockScales&), const uint8_t* block, float factor,
              float* scales) {
  uint16_t d = 0, dmin = 0;
  int8_t s[kGroups];
  uint8_t mins[kGroups];
  decode_scales(block, {&d, &dmin, s, mins});
  for (int g = 0; g < kGroups; g++) scales[g] = f16_to_float(d) * static_cast<float>(s[g]) * factor;
}

// d, then 8 of (4 indices of a byte, 4 signs of 7 bits and a scale)
void scales_iq2_xxs(const uint8_t* b, const BlockScales& out) {
  *out.d = at<uint16_t>(b);
  for (int g = 0; g < 8; g++)
    out.scales[g] = static_cast<int8_t>(2 * (at<uint32_t>(b + 2 + g * 8 + 4) >> 28) + 1);
}
void decode_iq2_xxs(const uint8_t* b, uint8_t* codes, float* scales, float*) {
  multiply<8>(scales_iq2_xxs, b, 0.125f, scales);
  for (int i = 0; i < 32; i++) {
    const uint8_t* group = b + 2 + i / 4 * 8;
    put_entry<8, 2>(kGridIq2Xxs[group[i % 4]], even_signs(at<uint32_t>(group + 4) >> (i % 4 * 7)),
                    codes + i * 8);
  }
}

// d, qs[32] (9 bits of index, 7 of signs), scales[8]
void scales_iq2_xs(const uint8_t* b, const BlockScales& out) {
  *out.d = at<uint16_t>(b);
  for (int g = 0; g < 16; g++) out.scales[g] = static_cast<int8_t>(2 * nibble(b + 66, g) + 1);
}
void decode_iq2_xs(const uint8_t* b, uint8_t* codes, float* scales, float*) {
  multiply<16>(scales_iq2_xs, b, 0.125f, scales);
  for (int i = 0; i < 32; i++) {
    const auto q = at<uint16_t>(b + 2 + i * 2);
    put_entry<8, 2>(kGridIq2Xs[q & 511], even_signs(q >> 9), codes + i * 8);
  }
}

// d, qs[32], signs[32], qh[8], scales[8]
void scales_iq2_s(const uint8_t* b, const BlockScales& out) {
  *out.d = at<uint16_t>(b);
  for (int g = 0; g < 16; g++) out.scales[g] = static_cast<int8_t>(2 * nibble(b + 74, g) + 1);
}
void decode_iq2_s(const uint8_t* b, uint8_t* codes, float* scales, float*) {
  multiply<16>(scales_iq2_s, b, 0.125f, scales);
  const uint8_t *qs = b + 2, *signs = b + 34, *qh = b + 66;
  for (int i = 0; i < 32; i++)
    put_entry<8, 2>(kGridIq2S[qs[i] | ((qh[i / 4] >> (i % 4 * 2)) & 3) << 8], signs[i], codes + i * 8);
}

// d, qs[64], then 8 of (4 signs of 7 bits and a scale)
void scales_iq3_xxs(const uint8_t* b, const BlockScales& out) {
  *out.d = at<uint16_t>(b);
  for (int g = 0; g < 8; g++)
    out.scales[g] = static_cast<int8_t>(2 * (at<uint32_t>(b + 66 + g * 4) >> 28) + 1);
}
void decode_iq3_xxs(const uint8_t* b, uint8_t* codes, float* scales, float*) {
  multiply<8>(scales_iq3_xxs, b, 0.25f, scales);
  for (int i = 0; i < 64; i++) {
    const uint32_t signs = even_signs(at<uint32_t>(b + 66 + i / 8 * 4) >> (i % 8 / 2 * 7));
    put_entry<4, 4>(kGridIq3Xxs[b[2 + i]], signs >> (i % 2 * 4), codes + i * 4);
  }
}

// d, qs[64], qh[8], signs[32], scales[4]
void scales_iq3_s(const uint8_t* b, const BlockScales& out) {
  *out.d = at<uint16_t>(b);
  for (int g = 0; g < 8; g++) out.scales[g] = static_cast<int8_t>(2 * nibble(b + 106, g) + 1);
}
void decode_iq3_s(const uint8_t* b, uint8_t* codes, float* scales, float*) {
  multiply<8>(scales_iq3_s, b, 1, scales);
  const uint8_t *qs = b + 2, *qh = b + 66, *signs = b + 74;
  for (int i = 0; i < 64; i++)
    put_entry<4, 4>(kGridIq3S[qs[i] | ((qh[i / 8] >> (i % 8)) & 1) << 8],
                    static_cast<uint32_t>(nibble(signs, i)), codes + i * 4);
}

void put_iq1(int index, bool minus, uint8_t* codes) {
  for (int i = 0; i < 8; i++)
    codes[i] = static_cast<uint8_t>(((kGridIq1[index] >> (2 * i)) & 3) | (minus ? 4 : 0));
}

// d, qs[32], then 8 of (4 times 3 bits of index, 3 of scale, 1 of sign)
void scales_iq1_s(const uint8_t* b, const BlockScales& out) {
  *out.d = at<uint16_t>(b);
  for (int g = 0; g < 8; g++)
    out.scales[g] = static_cast<int8_t>(2 * ((at<uint16_t>(b + 34 + g * 2) >> 12) & 7) + 1);
}
void decode_iq1_s(const uint8_t* b, uint8_t* codes, float* scales, float*) {
  multiply<8>(scales_iq1_s, b, 0.125f, scales);
  for (int i = 0; i < 32; i++) {
    const auto qh = at<uint16_t>(b + 34 + i / 4 * 2);
    put_iq1(b[2 + i] | ((qh >> (i % 4 * 3)) & 7) << 8, (qh & 0x8000) != 0, codes + i * 8);
  }
}

// qs[32], qh[16], scales[4] of 16 bits: a quarter of d and four scales of 3 bits
void scales_iq1_m(const uint8_t* b, const BlockScales& out) {
  *out.d = 0;
  for (int i = 0; i < 4; i++)
    *out.d = static_cast<uint16_t>(*out.d | (at<uint16_t>(b + 48 + i * 2) >> 12) << (4 * i));
  for (int g = 0; g < 16; g++)
    out.scales[g] = static_cast<int8_t>(2 * ((at<uint16_t>(b + 48 + g / 4 * 2) >> (g % 4 * 3)) & 7) + 1);
}
void decode_iq1_m(const uint8_t* b, uint8_t* codes, float* scales, float*) {
  multiply<16>(scales_iq1_m, b, 0.125f, scales);
  for (int i = 0; i < 32; i++) {
    const int high = nibble(b + 32, i);
    put_iq1(b[i] | (high & 7) << 8, (high & 8) != 0, codes + i * 8);
  }
}

void decode_iq4_nl(const uint8_t* b, uint8_t* codes, float* scales, float*) {
  scales[0] = f16_to_float(at<uint16_t>(b));
  low_then_high(b + 2, 16, codes);
}

// d, 8 times 2 bits, 8 times 4 bits of scales, qs[128]
void scales_iq4_xs(const uint8_t* b, const BlockScales& out) {
  *out.d = at<uint16_t>(b);
  const auto high = at<uint16_t>(b + 2);
  for (int g = 0; g < 8; g++)
    out.scales[g] = static_cast<int8_t>((nibble(b + 4, g) | ((high >> (2 * g)) & 3) << 4) - 32);
}
void decode_iq4_xs(const uint8_t* b, uint8_t* codes, float* scales, float*) {
  multiply<8>(scales_iq4_xs, b, 1, scales);
  for (int g = 0; g < 8; g++) low_then_high(b + 8 + g * 16, 16, codes + g * 32);
}

// An exponent, qs[16]
void decode_mxfp4(const uint8_t* b, uint8_t* codes, float* scales, float*) {
  scales[0] = e8m0_to_float(b[0]) * 0.5f;
  low_then_high(b + 1, 16, codes);
}

// Scales of 4 groups (E4M3 without a sign, whose NaN is 0), qs[32]
void decode_nvfp4(const uint8_t* b, uint8_t* codes, float* scales, float*) {
  for (int g = 0; g < 4; g++) {
    const uint8_t scale = b[g] & 0x7F;
    scales[g] = scale == 0x7F ? 0.0f : e4m3_to_float(scale) * 0.5f;
    low_then_high(b + 4 + g * 8, 8, codes + g * 16);
  }
}

// qs[48], qh[4], d. A byte is a fraction in base 3, whose first five digits (in qh: four) are codes. The
// codes come in rows: the first digits of 32 bytes, their second digits, ...; then those of 16 bytes, then of
// the 4 of qh.
void decode_tq1_0(const uint8_t* b, uint8_t* codes, float* scales, float*) {
  scales[0] = scales[1] = f16_to_float(at<uint16_t>(b + 52));
  constexpr struct { int first, bytes, digits; } kParts[] = {{0, 32, 5}, {32, 16, 5}, {48, 4, 4}};
  for (const auto& part : kParts) {
    uint8_t power = 1;
    for (int n = 0; n < part.digits; n++, power = static_cast<uint8_t>(power * 3))
      for (int i = 0; i < part.bytes; i++) {
        const auto digits = static_cast<uint8_t>(b[part.first + i] * power);
        *codes++ = static_cast<uint8_t>(digits * 3 >> 8);
      }
  }
}

// qs[64], d
void decode_tq2_0(const uint8_t* b, uint8_t* codes, float* scales, float*) {
  scales[0] = scales[1] = f16_to_float(at<uint16_t>(b + 64));
  for (int half = 0; half < 2; half++)
    for (int k = 0; k < 4; k++)
      for (int i = 0; i < 32; i++) *codes++ = (b[half * 32 + i] >> (2 * k)) & 3;
}

GgufType table_type(uint32_t id, const char* name, int block, int bytes, int group, ScaleType scale_type,
                    const CodeTable& table, float factor, decltype(GgufType::decode) decode,
                    decltype(GgufType::decode_scales) decode_scales = nullptr) {
  GgufType type{id,         name, block, bytes,  WeightKind::table, 4, group,
                scale_type, true, 0,     decode, decode_scales};
  type.table = table;
  type.scale_factor = factor;
  return type;
}

}  // namespace

std::span<const GgufType> gguf_table_types() {
  constexpr auto kHalf = ScaleType::f16, kFull = ScaleType::f32;
  constexpr auto kAffine = WeightKind::affine;
  static const GgufType kTypes[] = {
      table_type(16, "IQ2_XXS", 256, 66, 32, kFull, kIq2Table, 0.125f, decode_iq2_xxs, scales_iq2_xxs),
      table_type(17, "IQ2_XS", 256, 74, 16, kFull, kIq2Table, 0.125f, decode_iq2_xs, scales_iq2_xs),
      table_type(22, "IQ2_S", 256, 82, 16, kFull, kIq2Table, 0.125f, decode_iq2_s, scales_iq2_s),
      table_type(18, "IQ3_XXS", 256, 98, 32, kFull, kIq3XxsTable, 0.25f, decode_iq3_xxs, scales_iq3_xxs),
      table_type(21, "IQ3_S", 256, 110, 32, kFull, kIq3STable, 1, decode_iq3_s, scales_iq3_s),
      table_type(19, "IQ1_S", 256, 50, 32, kFull, kIq1Table, 0.125f, decode_iq1_s, scales_iq1_s),
      table_type(29, "IQ1_M", 256, 56, 16, kFull, kIq1Table, 0.125f, decode_iq1_m, scales_iq1_m),
      table_type(20, "IQ4_NL", 32, 18, 32, kHalf, kIq4Table, 1, decode_iq4_nl),
      table_type(23, "IQ4_XS", 256, 136, 32, kFull, kIq4Table, 1, decode_iq4_xs, scales_iq4_xs),
      table_type(39, "MXFP4", 32, 17, 32, ScaleType::e8m0, kFloat4Table, 0.5f, decode_mxfp4),
      table_type(40, "NVFP4", 64, 36, 16, ScaleType::e4m3, kFloat4Table, 0.5f, decode_nvfp4),
      {34, "TQ1_0", 256, 54, kAffine, 2, 128, kHalf, true, 1, decode_tq1_0},
      {35, "TQ2_0", 256, 66, kAffine, 2, 128, kHalf, true, 1, decode_tq2_0},
  };
  return kTypes;
}

}  // namespace anabranch
