// Splits text into the words that a model tokenises one by one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/encode_limit.h"
#include "tokenizer/regex.h"

namespace anabranch {

// How separators are treated.
enum class SplitBehavior { isolated, removed, merged_with_previous, merged_with_next, contiguous };

struct PreTokenizerStep {
  enum class Kind { byte_level, split, digits, metaspace, whitespace, whitespace_split, punctuation };
  enum class Prepend { always, first, never };
  Kind kind = Kind::split;
  std::vector<Regex> pattern;  // split: exactly one; byte_level: one when it splits by GPT-2's pattern
  SplitBehavior behavior = SplitBehavior::isolated;  // split, punctuation
  bool invert = false;                               // split: separators are what the pattern does not match
  bool individual = false;                           // digits: each alone
  bool add_prefix_space = false;                     // byte_level
  std::string replacement;                           // metaspace: stands for a space, one code point
  Prepend prepend = Prepend::always;                 // metaspace
  bool split = true;                                 // metaspace: cut before each replacement
};

class PreTokenizer {
 public:
  PreTokenizer() = default;
  explicit PreTokenizer(std::vector<PreTokenizerStep> steps) : steps_(std::move(steps)) {}

  // The words of one stretch of valid UTF-8 between added tokens. at_start: it is the beginning of the whole
  // text.
  struct Words {
    struct Range {
      size_t begin, end;
      bool at_start;
    };
    std::string text;
    std::vector<Range> ranges;  // into text, in order, none empty
  };
  // limit: may be null. words_count: each word becomes at least one token, so the limit counts words as
  // tokens.
  Words apply(std::string text, bool at_start, EncodeLimit* limit = nullptr, bool words_count = false) const;
  // Whether every part of the text becomes part of a word.
  bool keeps_all() const;
  // Whether the words are in GPT-2's characters for bytes.
  bool writes_bytes() const;

 private:
  std::vector<PreTokenizerStep> steps_;
};

// GPT-2's pattern, which ByteLevel splits by.
inline constexpr std::string_view kGpt2Pattern =
    R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace anabranch
