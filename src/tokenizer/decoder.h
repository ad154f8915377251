// Tokens back to text, by the steps that tokenizer.json names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/regex.h"

namespace anabranch {

struct DecoderStep {
  enum class Kind { byte_level, replace, byte_fallback, fuse, strip, metaspace };
  Kind kind = Kind::fuse;
  std::vector<Regex> pattern;  // replace: exactly one
  std::string content;         // replace: the new text; strip: the character; metaspace: the replacement
  int start = 0, stop = 0;     // strip: at most this many characters
  bool drop_first = false;     // metaspace: the first token loses its replacements
};

class Decoder {
 public:
  Decoder() = default;
  explicit Decoder(std::vector<DecoderStep> steps) : steps_(std::move(steps)) {}
  // The text of a whole sequence; invalid UTF-8 becomes U+FFFD.
  std::string decode(std::vector<std::string> tokens) const;
  // The bytes that one token adds after other tokens; may be part of a code point.
  std::string bytes_of(std::string_view token) const;
  // Spaces that decode() drops at the start of a text (INT_MAX: all that its first token begins with).
  int leading_spaces_dropped() const;
  // Whether decode() is nothing but the joined bytes of its tokens.
  bool plain() const { return steps_.size() == 1 && steps_[0].kind == DecoderStep::Kind::byte_level; }

 private:
  std::vector<DecoderStep> steps_;
};

}  // namespace anabranch
