#include "base/printed_text.h"

#include <fmt/core.h>

#include "base/outside_text.h"

namespace anabranch {

std::string escape_json(std::string_view json) {
  std::string out;
  for (size_t at = 0, length = 0; at < json.size(); at += length) {
    const char32_t c = character_at(json, at, length);
    if (c == kNoCharacter || !is_hidden(c)) {
      out.append(json, at, length);
    } else if (c < 0x10000) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
    } else {  // as a UTF-16 surrogate pair
      const auto above = static_cast<uint32_t>(c - 0x10000);
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (above >> 10), 0xDC00 + (above & 0x3FF));
    }
  }
  return out;
}

}  // namespace anabranch
