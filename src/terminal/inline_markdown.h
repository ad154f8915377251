// Marks within a line of Markdown: emphasis, code, links.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace anabranch::terminal {

struct StyledText {
  std::string text;
  uint8_t style;  // see wrapper.h
};

struct InlineText {
  std::vector<StyledText> spans;
  bool open = false;  // later text may still close a mark
};

// The text without its marks. Marks that are never closed stay as text. style: for the whole text.
InlineText read_inline(std::string_view text, uint8_t style);

}  // namespace anabranch::terminal
