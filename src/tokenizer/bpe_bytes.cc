#include "tokenizer/bpe_bytes.h"

#include <array>

#include "tokenizer/utf8.h"

namespace anabranch {
namespace {

struct Alphabet {
  std::array<std::string, 256> chars;
  std::array<int16_t, 324> bytes;  // by code point
  Alphabet() {
    bytes.fill(-1);
    // Printable Latin-1 stands for itself; the other 68 bytes follow from U+0100 on.
    char32_t next = 0x100;
    for (int b = 0; b < 256; ++b) {
      const bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b != 0xAD);
      const char32_t c = printable ? static_cast<char32_t>(b) : next++;
      append_utf8(chars[b], c);
      bytes[c] = static_cast<int16_t>(b);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet a;
  return a;
}

}  // namespace

std::string_view byte_to_char(uint8_t byte) {
  return alphabet().chars[byte];
}

std::optional<std::string> chars_to_bytes(std::string_view text) {
  const Alphabet& a = alphabet();
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    if (text[pos] > ' ' && text[pos] < 127) {
      out += text[pos++];
      continue;
    }
    const CodePoint c = decode_utf8(text, pos);
    if (!c.valid || c.value >= a.bytes.size() || a.bytes[c.value] < 0) return std::nullopt;
    out += static_cast<char>(a.bytes[c.value]);
    pos += c.length;
  }
  return out;
}

}  // namespace anabranch
