#include "base/outside_text.h"

#include <fmt/core.h>

#include <algorithm>

namespace anabranch {
namespace {

// The number of bytes that a character's first byte announces; 0: it is not a first byte.
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

// Unicode 15's Default_Ignorable_Code_Point, line separators, and letters that are drawn as spaces: pairs of
// first and last.
constexpr char32_t kInvisible[][2] = {
    {0xA0, 0xA0},       {0xAD, 0xAD},      {0x34F, 0x34F},   {0x61C, 0x61C},   {0x115F, 0x1160},
    {0x17B4, 0x17B5},   {0x180B, 0x180F},  {0x1680, 0x1680}, {0x2000, 0x200F}, {0x2028, 0x202F},
    {0x205F, 0x205F},   {0x2060, 0x206F},  {0x2800, 0x2800}, {0x3000, 0x3000}, {0x3164, 0x3164},
    {0xFE00, 0xFE0F},   {0xFEFF, 0xFEFF},  {0xFFA0, 0xFFA0}, {0xFFF0, 0xFFFB}, {0x1BCA0, 0x1BCA3},
    {0x1D173, 0x1D17A}, {0xE0000, 0xE0FFF}};

bool is_invisible(char32_t c) {
  return std::ranges::any_of(kInvisible, [c](const auto& range) { return c >= range[0] && c <= range[1]; });
}

std::string escape(std::string_view text, bool lines, bool invisible = false) {
  std::string out;
  for (size_t at = 0, length = 0; at < text.size(); at += length) {
    const char32_t c = character_at(text, at, length);
    const bool line = !lines && (c == '\n' || c == '\t');
    if (c == kNoCharacter || is_hidden(c) || line || (invisible && is_invisible(c)))
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

std::string escape_line(std::string_view text) {
  return escape(text, false);
}

std::string escape_invisible(std::string_view text) {
  return escape(text, true, true);
}

std::string shown(std::string_view text, size_t most) {
  if (text.size() <= most) return escape_line(text);
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0) == 0x80) most--;
  return escape_line(text.substr(0, most)) + "...";
}

}  // namespace anabranch
