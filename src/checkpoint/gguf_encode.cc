#include "checkpoint/gguf_encode.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <span>

#include "base/float16.h"
#include "checkpoint/gguf_fit.h"

namespace anabranch {

namespace {

constexpr int kSuper = 256;  // weights of a block of the K and IQ types

void put_half(uint16_t bits, uint8_t* out) {
  std::memcpy(out, &bits, sizeof(bits));
}

// 32 codes of 4 bits: the low ones are weights 0..15, the high ones 16..31.
void put_nibbles(const uint8_t* codes, uint8_t* out) {
  for (int i = 0; i < 16; i++) out[i] = static_cast<uint8_t>((codes[i] & 15) | (codes[i + 16] & 15) << 4);
}

void put_fifth_bits(const uint8_t* codes, uint8_t* out) {
  uint32_t high = 0;
  for (int i = 0; i < 32; i++) high |= uint32_t{codes[i]} >> 4 << i;
  std::memcpy(out, &high, sizeof(high));
}

void encode_q8_0(const float* w, const float*, uint8_t* out) {
  float most = 0;
  for (int i = 0; i < 32; i++) most = std::max(most, std::fabs(w[i]));
  const uint16_t d = float_to_f16(most / 127);
  const float scale = f16_to_float(d), inverse = scale > 0 ? 1 / scale : 0;
  put_half(d, out);
  for (int i = 0; i < 32; i++)
    out[2 + i] = static_cast<uint8_t>(
        static_cast<int8_t>(std::clamp(std::nearbyint(w[i] * inverse), -127.0f, 127.0f)));
}

void encode_q5_0(const float* w, const float* h, uint8_t* out) {
  uint8_t codes[32];
  put_half(fit_half_scale<SignedGrid<16>>({w, h, 32}, codes), out);
  put_fifth_bits(codes, out + 2);
  put_nibbles(codes, out + 6);
}

void encode_q5_1(const float* w, const float* h, uint8_t* out) {
  const AffineGroup g = fit_affine_group(w, h, 31);
  put_half(g.scale, out);
  put_half(g.bias, out + 2);
  put_fifth_bits(g.codes, out + 4);
  put_nibbles(g.codes, out + 8);
}

void encode_iq4_nl(const float* w, const float* h, uint8_t* out) {
  uint8_t codes[32];
  put_half(fit_half_scale<Iq4Grid>({w, h, 32}, codes), out);
  put_nibbles(codes, out + 2);
}

// 8 scales and 8 mins of 6 bits in 12 bytes.
void put_scales_and_mins(const AffineBlock& b, uint8_t* out) {
  for (int g = 0; g < 4; g++) {
    out[g] = static_cast<uint8_t>((b.scales[g] & 63) | (b.scales[g + 4] >> 4) << 6);
    out[g + 4] = static_cast<uint8_t>((b.mins[g] & 63) | (b.mins[g + 4] >> 4) << 6);
    out[g + 8] = static_cast<uint8_t>((b.scales[g + 4] & 15) | (b.mins[g + 4] & 15) << 4);
  }
}

// The lower 4 bits of the codes: two groups share 32 bytes.
void put_group_pairs(const uint8_t* codes, uint8_t* out) {
  for (int pair = 0; pair < 4; pair++)
    for (int i = 0; i < 32; i++)
      out[pair * 32 + i] =
          static_cast<uint8_t>((codes[pair * 64 + i] & 15) | (codes[pair * 64 + 32 + i] & 15) << 4);
}

void encode_q4_k(const float* w, const float* h, uint8_t* out) {
  const AffineBlock b = fit_affine_block(w, h, 15);
  put_half(b.d, out);
  put_half(b.dmin, out + 2);
  put_scales_and_mins(b, out + 4);
  put_group_pairs(b.codes, out + 16);
}

void encode_q5_k(const float* w, const float* h, uint8_t* out) {
  const AffineBlock b = fit_affine_block(w, h, 31);
  put_half(b.d, out);
  put_half(b.dmin, out + 2);
  put_scales_and_mins(b, out + 4);
  uint8_t* high = out + 16;
  std::memset(high, 0, 32);
  for (int i = 0; i < kSuper; i++)
    high[i % 32] = static_cast<uint8_t>(high[i % 32] | (b.codes[i] >> 4) << (i / 32));
  put_group_pairs(b.codes, out + 48);
}

// ql[128], qh[64], scales[16], d
void encode_q6_k(const float* w, const float* h, uint8_t* out) {
  uint8_t codes[kSuper];
  int8_t scales[16];
  const uint16_t d = fit_scaled_block<SignedGrid<32>, 16>(w, h, -128, 127, scales, codes);
  std::memset(out, 0, 192);
  for (int half = 0; half < 2; half++)
    for (int k = 0; k < 4; k++)
      for (int i = 0; i < 32; i++) {
        const uint8_t code = codes[half * 128 + k * 32 + i];
        uint8_t &low = out[half * 64 + k % 2 * 32 + i], &high = out[128 + half * 32 + i];
        low = static_cast<uint8_t>(low | (code & 15) << (k / 2 * 4));
        high = static_cast<uint8_t>(high | (code >> 4) << (2 * k));
      }
  std::memcpy(out + 192, scales, 16);
  put_half(d, out + 208);
}

// d, 8 times 2 bits, 8 times 4 bits of scales, qs[128]
void encode_iq4_xs(const float* w, const float* h, uint8_t* out) {
  uint8_t codes[kSuper];
  int8_t scales[8];
  put_half(fit_scaled_block<Iq4Grid, 32>(w, h, -32, 31, scales, codes), out);
  uint16_t high = 0;
  std::memset(out + 4, 0, 4);
  for (int g = 0; g < 8; g++) {
    const auto stored = static_cast<unsigned>(scales[g] + 32);
    out[4 + g / 2] = static_cast<uint8_t>(out[4 + g / 2] | (stored & 15) << (g % 2 * 4));
    high = static_cast<uint16_t>(high | (stored >> 4) << (2 * g));
    put_nibbles(codes + g * 32, out + 8 + g * 16);
  }
  put_half(high, out + 2);
}

constexpr GgufEncoder kEncoders[] = {
    {"Q5_0", encode_q5_0}, {"Q5_1", encode_q5_1}, {"Q8_0", encode_q8_0},     {"Q4_K", encode_q4_k},
    {"Q5_K", encode_q5_k}, {"Q6_K", encode_q6_k}, {"IQ4_NL", encode_iq4_nl}, {"IQ4_XS", encode_iq4_xs},
};

}  // namespace

const GgufEncoder* find_gguf_encoder(std::string_view type) {
  for (const GgufEncoder& encoder : kEncoders)
    if (encoder.type == type) return &encoder;
  return nullptr;
}

}  // namespace anabranch
