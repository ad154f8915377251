#include "base/outside_text.h"

#include <fmt/core.h>

namespace anabranch {
namespace {

// How many bytes the first byte of a character announces; 0: it begins none.
size_t announced(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first < 0xE0) return 2;
  if (first >= 0xE0 && first < 0xF0) return 3;
  return first >= 0xF0 && first < 0xF5 ? 4 : 0;
}

void append_escaped(std::string& out, char32_t c, std::string_view bytes) {
  if (c == '\n') {
    out += "\\n";
  } else if (c == '\t') {
    out += "\\t";
  } else if (c < 0x80 || c == kNoCharacter) {
    out += fmt::format("\\x{:02x}", static_cast<unsigned char>(bytes.front()));
  } else {
    out += c < 0x10000 ? fmt::format("\\u{:04x}", static_cast<uint32_t>(c))
                       : fmt::format("\\U{:08x}", static_cast<uint32_t>(c));
  }
}

std::string escape(std::string_view text, bool lines) {
  std::string out;
  for (size_t at = 0, length = 0; at < text.size(); at += length) {
    const char32_t c = character_at(text, at, length);
    const bool line = !lines && (c == '\n' || c == '\t');
    if (c == kNoCharacter || is_hidden(c) || line)
      append_escaped(out, c, text.substr(at, length));
    else
      out.append(text, at, length);
  }
  return out;
}

}  // namespace

char32_t character_at(std::string_view text, size_t at, size_t& length) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const size_t wanted = announced(byte(0));
  length = 1;
  if (wanted == 1) return byte(0);
  if (wanted == 0 || at + wanted > text.size()) return kNoCharacter;
  char32_t c = byte(0) & (0xFF >> (wanted + 1));
  for (size_t i = 1; i < wanted; i++) {
    if ((byte(i) & 0xC0) != 0x80) return kNoCharacter;
    c = c << 6 | (byte(i) & 0x3F);
  }
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (c < kLeast[wanted] || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) return kNoCharacter;
  length = wanted;
  return c;
}

bool is_hidden(char32_t c) {
  if (c == '\n' || c == '\t') return false;
  return c < 0x20 || (c >= 0x7F && c < 0xA0) ||  // control characters
         (c >= 0x200E && c <= 0x200F) ||         // marks of direction
         (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069) ||
         (c >= 0xE0000 && c <= 0xE007F);  // tags: invisible copies of ASCII
}

std::string escape_hidden(std::string_view text) {
  return escape(text, true);
}

std::string shown(std::string_view text, size_t most) {
  if (text.size() <= most) return escape(text, false);
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0) == 0x80) most--;
  return escape(text.substr(0, most), false) + "...";
}

}  // namespace anabranch
