// A part of a prompt's text, and who wrote it.
#pragma once

#include <string>

namespace anabranch {

// Text of which only `trusted` pieces (what the chat template itself wrote) may become special tokens.
struct PromptPiece {
  std::string text;
  bool trusted = false;
};

}  // namespace anabranch
