#include "mcp/text.h"

#include "base/json.h"

namespace anabranch::mcp {
namespace {

// text[at] begins a character of valid UTF-8; its value and length.
char32_t decode(std::string_view text, size_t at, size_t& length) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  length = byte(0) < 0x80 ? 1 : byte(0) < 0xE0 ? 2 : byte(0) < 0xF0 ? 3 : 4;
  if (length == 1) return byte(0);
  char32_t value = byte(0) & (0xFF >> (length + 1));
  for (size_t i = 1; i < length && at + i < text.size(); i++) value = value << 6 | (byte(i) & 0x3F);
  return value;
}

bool is_hidden(char32_t c) {
  if (c == '\n' || c == '\t') return false;
  return c < 0x20 || (c >= 0x7F && c < 0xA0) ||  // control characters
         (c >= 0x200E && c <= 0x200F) ||         // marks of direction
         (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069) ||
         (c >= 0xE0000 && c <= 0xE007F);  // tags: invisible copies of ASCII
}

// JSON's writer replaces bytes that are no UTF-8, and its reader undoes the rest.
std::string as_utf8(std::string_view text) {
  const std::string quoted = dump_json(std::string(text));
  const auto back = parse_json(quoted, {.bytes = quoted.size()});
  return back.ok() && back->is_string() ? back->get<std::string>() : std::string();
}

}  // namespace

std::string printable(std::string_view text) {
  const std::string whole = as_utf8(text);
  std::string out;
  for (size_t at = 0, length = 0; at < whole.size(); at += length) {
    const char32_t c = decode(whole, at, length);
    if (!is_hidden(c)) out.append(whole, at, length);
  }
  return out;
}

std::string without_controls(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size(); at++) {
    const auto byte = static_cast<unsigned char>(text[at]);
    // U+0080 to U+009F, which some terminals obey, are C2 80 to C2 9F.
    const bool high = byte == 0xC2 && at + 1 < text.size() && static_cast<unsigned char>(text[at + 1]) < 0xA0;
    const bool low = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F;
    if (high) at++;
    if (!high && !low) out += text[at];
  }
  return out;
}

std::string one_line(std::string_view text, size_t bytes) {
  // A character takes up to four bytes, of which printable() may drop some: read no more than is needed.
  std::string out = printable(text.substr(0, 4 * bytes + 16));
  for (char& c : out)
    if (c == '\n' || c == '\t') c = ' ';
  if (out.size() <= bytes && text.size() <= 4 * bytes + 16) return out;
  return std::string(beginning(out, bytes)) + "...";
}

std::string_view beginning(std::string_view text, size_t bytes) {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xC0) == 0x80) bytes--;
  return text.substr(0, bytes);
}

}  // namespace anabranch::mcp
