#include "base/float8.h"

#include <algorithm>
#include <cmath>

namespace anabranch {

uint8_t float_to_e4m3(float value) {
  constexpr float kSmallestNormal = 0x1p-6f, kLargest = 448;
  const auto sign = static_cast<uint8_t>(std::bit_cast<uint32_t>(value) >> 24 & 0x80u);
  if (value != value) return sign | 0x7F;
  const float magnitude = std::min(std::fabs(value), kLargest);
  // Below it, numbers are multiples of 2^-9, so the multiple is the code.
  if (magnitude < kSmallestNormal) return sign | static_cast<uint8_t>(std::nearbyint(magnitude * 0x1p9f));
  uint32_t bits = std::bit_cast<uint32_t>(magnitude);
  bits += 0x7FFFFu + (bits >> 20 & 1);  // keeps 3 bits of the mantissa
  return sign | static_cast<uint8_t>((bits >> 20) - (120u << 3));
}

}  // namespace anabranch
