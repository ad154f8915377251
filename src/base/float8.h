// E4M3 (without infinities: 0x7F and 0xFF are NaN) and E8M0, the 8-bit numbers of OCP's "8-bit Floating
// Point" and "Microscaling Formats".
#pragma once

#include <bit>
#include <cstdint>

namespace anabranch {

// The exact value.
inline float e4m3_to_float(uint8_t code) {
  const uint32_t magnitude = code & 0x7Fu, sign = (code & 0x80u) << 24;
  if (magnitude == 0x7F) return std::bit_cast<float>(sign | 0x7FC00000u);
  // At its place in a float, the code's exponent is 120 too small (its bias is 7, a float's 127). Multiplying
  // by 2^120 corrects that, and also makes subnormal numbers normal.
  const float value = std::bit_cast<float>(magnitude << 20) * 0x1p120f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
}

// 2^(code - 127); 0xFF is NaN.
inline float e8m0_to_float(uint8_t code) {
  if (code == 0xFF) return std::bit_cast<float>(0x7FC00000u);
  return std::bit_cast<float>(code == 0 ? 0x00400000u : uint32_t{code} << 23);
}

// The nearest number, ties to the even mantissa; values beyond the largest (448) become 448. NaN gives NaN.
uint8_t float_to_e4m3(float value);

}  // namespace anabranch
