// A part of a prompt's text, and who wrote it.
#pragma once

#include <string>

namespace anabranch {

// Only `trusted` pieces (written by the chat template itself) may contain special tokens.
struct PromptPiece {
  std::string text;
  bool trusted = false;
};

}  // namespace anabranch
