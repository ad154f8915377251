// The marks within a line of Markdown: emphasis, code, links.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace anabranch::terminal {

struct Span {
  std::string text;
  uint8_t style;  // of wrapper.h
};

struct InlineText {
  std::vector<Span> spans;
  bool open = false;  // a mark may still be closed by what follows
};

// The text without its marks. Marks that nothing closes are text. style: of the whole.
InlineText read_inline(std::string_view text, uint8_t style);

}  // namespace anabranch::terminal
