#include "base/base64.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace anabranch {
namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr uint8_t kNoDigit = 64;

constexpr std::array<uint8_t, 256> digit_values() {
  std::array<uint8_t, 256> values{};
  values.fill(kNoDigit);
  for (size_t i = 0; i < kDigits.size(); ++i)
    values[static_cast<unsigned char>(kDigits[i])] = static_cast<uint8_t>(i);
  return values;
}
constexpr auto kValues = digit_values();

uint32_t value_of(char digit) {
  return kValues[static_cast<unsigned char>(digit)];
}

}  // namespace

std::string to_base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t left = std::min<size_t>(3, bytes.size() - i);
    uint32_t word = 0;
    for (size_t k = 0; k < 3; ++k)
      word = word << 8 | (k < left ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    for (size_t k = 0; k < 4; ++k) text += k <= left ? kDigits[word >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

Result<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0)
    return make_error(ErrorKind::invalid, "base64 has {} characters, which is no multiple of 4", text.size());
  size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  const size_t digits = text.size() - padding;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (size_t i = 0; i < digits; i += 4) {
    const size_t count = std::min<size_t>(4, digits - i);
    uint32_t word = 0;
    for (size_t k = 0; k < 4; ++k) {
      const uint32_t value = k < count ? value_of(text[i + k]) : 0;
      if (value == kNoDigit)
        return make_error(ErrorKind::invalid, "the character at offset {} is none of base64", i + k);
      word = word << 6 | value;
    }
    const size_t whole = count - 1;  // bytes in this group
    if ((word & ((1u << (24 - 8 * whole)) - 1)) != 0)
      return make_error(ErrorKind::invalid, "base64 has stray bits behind its last byte");
    for (size_t k = 0; k < whole; ++k) bytes += static_cast<char>(word >> (16 - 8 * k));
  }
  return bytes;
}

}  // namespace anabranch
