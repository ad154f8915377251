#include "mcp/text.h"

#include "base/json.h"
#include "base/outside_text.h"

namespace anabranch::mcp {
namespace {

// The JSON writer replaces bytes that are not UTF-8, and the reader undoes its escapes.
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
    const char32_t c = character_at(whole, at, length);
    if (!is_hidden(c)) out.append(whole, at, length);
  }
  return out;
}

std::string without_controls(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size(); at++) {
    const auto byte = static_cast<unsigned char>(text[at]);
    // U+0080 to U+009F, which some terminals interpret, are C2 80 to C2 9F.
    const bool high = byte == 0xC2 && at + 1 < text.size() && static_cast<unsigned char>(text[at + 1]) < 0xA0;
    const bool low = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F;
    if (high) at++;
    if (!high && !low) out += text[at];
  }
  return out;
}

std::string one_line(std::string_view text, size_t bytes) {
  // A character takes up to four bytes, and printable() may drop some: pass only as much as is needed.
  std::string out = printable(beginning(text, 4 * bytes + 16));
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
