#include "base/float8.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace anabranch {

uint8_t float_to_e4m3(float value) {
  constexpr float kSmallestNormal = 0x1p-6f, kLargest = 448;
  const auto sign = static_cast<uint8_t>(std::bit_cast<uint32_t>(value) >> 24 & 0x80u);
  if (value != value) return sign | 0x7F;
  const float magnitude = std::min(std::fabs(value), kLargest);
  // Below it the numbers are multiples of 2^-9, and so are their codes.
  if (magnitude < kSmallestNormal) return sign | static_cast<uint8_t>(std::nearbyint(magnitude * 0x1p9f));
  uint32_t bits = std::bit_cast<uint32_t>(magnitude);
  bits += 0x7FFFFu + (bits >> 20 & 1);  // 3 bits of the mantissa stay
  return sign | static_cast<uint8_t>((bits >> 20) - (120u << 3));
}

uint8_t exact_e4m3(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), sign = (bits >> 24) & 0x80u;
  const uint32_t magnitude =
      std::bit_cast<uint32_t>(std::bit_cast<float>(bits & 0x7FFFFFFFu) * 0x1p-120f) >> 20;
  const auto code = static_cast<uint8_t>(value == value ? sign | magnitude : 0x7Fu);
  CHECK(value != value || e4m3_to_float(code) == value, "{} is no E4M3 number", value);
  return code;
}

uint8_t exact_e8m0(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto code = static_cast<uint8_t>(value == value ? bits >> 23 : 0xFFu);
  CHECK(value != value || e8m0_to_float(code) == value, "{} is no power of two", value);
  return code;
}

}  // namespace anabranch
