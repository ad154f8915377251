// Normalisation before tokenising: Unicode forms, replacements, prefixes. Optionally tracks which bytes are
// trusted, so that untrusted text never becomes a special token.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/regex.h"

namespace anabranch {

// Text with a mark per byte: 1 when it came from a trusted source. An empty `trust` means all of it.
struct MarkedText {
  std::string text;
  std::string trust;
};

class SentencePieceNormalizer;

struct NormalizerStep {
  enum class Kind { nfc, nfd, nfkc, nfkd, replace, prepend, lowercase, strip, strip_accents, sentencepiece };
  Kind kind = Kind::nfc;
  std::vector<Regex> pattern;                              // replace: exactly one
  std::string literal;                                     // replace: set when the pattern is a plain string
  std::string content;                                     // replace, prepend
  bool left = true, right = true;                          // strip
  std::shared_ptr<const SentencePieceNormalizer> rules{};  // sentencepiece: never null
};

class Normalizer {
 public:
  Normalizer() = default;
  explicit Normalizer(std::vector<NormalizerStep> steps) : steps_(std::move(steps)) {}
  bool empty() const { return steps_.empty(); }
  // text: valid UTF-8; at_start: it is the beginning of the whole text. A byte of the result is trusted if
  // all bytes that it was made from are.
  MarkedText apply(MarkedText text, bool at_start = true) const;

 private:
  std::vector<NormalizerStep> steps_;
};

}  // namespace anabranch
