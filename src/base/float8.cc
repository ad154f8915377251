#include "base/float8.h"

#include "base/check.h"

namespace anabranch {

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
