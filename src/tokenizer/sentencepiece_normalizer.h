// SentencePiece's normalisation of a text: characters by a precompiled map, spaces as "▁", a space in front.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/sentencepiece_model.h"
#include "tokenizer/trie.h"

namespace anabranch {

// A normalizer's precompiled_charsmap: which sequences of characters become which text. It has 4 bytes
// (little-endian) with the size of a double array (Darts), the array, and then the texts, each with a zero
// byte after it.
class Charsmap {
 public:
  Charsmap() = default;  // changes nothing
  // Errors: invalid (damaged), exhausted (a replacement of more than kMaxReplacement bytes).
  static Result<Charsmap> parse(std::string_view bytes);

  struct Match {
    size_t size = 0;               // bytes of the text; 0: none
    std::string_view replacement;  // valid UTF-8
  };
  // The longest sequence that the map has at text[pos]; it ends between two characters of `text`.
  Match find(std::string_view text, size_t pos) const;

  static constexpr size_t kMaxReplacement = 256;

 private:
  std::vector<uint32_t> units_;
  std::string texts_;
};

class SentencePieceNormalizer {
 public:
  // prefix_everywhere: each stretch between added tokens gets the dummy prefix, not only the beginning of the
  // text. Errors: those of Charsmap::parse.
  static Result<SentencePieceNormalizer> make(const SentencePieceModel& model, bool prefix_everywhere);

  // text: valid UTF-8; at_start: it is the beginning of the whole text.
  MarkedText apply(const MarkedText& text, bool at_start) const;

 private:
  // The replacement of the characters at text[pos], and how many bytes these are.
  Charsmap::Match next(std::string_view text, size_t pos) const;

  Charsmap charsmap_;
  Trie kept_;  // user-defined pieces, which stay as they are
  bool prefix_ = false, prefix_everywhere_ = false, remove_extra_ = false, escape_ = false;
};

}  // namespace anabranch
