// Added tokens: texts such as <|im_end|> that are cut out before ordinary tokenising.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/normalizer.h"
#include "tokenizer/trie.h"

namespace anabranch {

struct AddedToken {
  int id = 0;
  std::string content;
  bool special = false;
  bool normalized = false;              // looked for after normalising
  bool as_is = false;                   // with `normalized`: its content is not normalised first
  bool lstrip = false, rstrip = false;  // swallows white space on that side
  bool single_word = false;             // not inside a word
  bool control = false;                 // is_control(), set by AddedTokens
};

// Whether a token steers the conversation, so that untrusted text must never produce it: every special token,
// and every other added token that is more than white space (<think>, [INST], <tool_call> are often not
// marked special).
bool is_control(const AddedToken& token);

class AddedTokens {
 public:
  AddedTokens() = default;
  AddedTokens(std::vector<AddedToken> tokens, const Normalizer& normalizer);

  // A part of the text: an added token, or (token == nullptr) the text between two.
  struct Part {
    size_t begin, end;
    const AddedToken* token;
  };
  // Cuts text (leftmost, then longest) at the tokens that are looked for before or after normalising. Special
  // tokens stay text unless parse_special is set. A control token is found only if all its bytes are trusted.
  std::vector<Part> split(const MarkedText& text, bool normalized, bool parse_special) const;
  const std::vector<AddedToken>& tokens() const { return tokens_; }

 private:
  std::vector<AddedToken> tokens_;
  Trie raw_, normalized_;  // values: index in tokens_
};

}  // namespace anabranch
