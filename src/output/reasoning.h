// The markers around a model's reasoning.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace anabranch {

struct ReasoningTags {
  std::string open = "<think>";
  std::string close = "</think>";
  std::string open_token;  // the token that `open` begins with, if `open` is more than one token
};

// Tracks whether a stream of tokens is in a thought, in the white space after one, or in the answer.
class ThoughtTracker {
 public:
  // open, close: the tags' tokens; without them everything is answer. inside: the stream begins in a thought.
  ThoughtTracker(std::optional<int> open, std::optional<int> close, bool inside)
      : open_(open), close_(close), inside_(inside && close) {}
  // Takes the next token; blank: it is white space. Returns whether it is part of a thought. The tags and up
  // to kMostBlanks tokens of white space after them belong to the thought.
  bool accept(int token, bool blank);
  bool inside() const { return inside_; }
  bool answering() const { return !inside_ && blanks_left_ == 0; }

 private:
  static constexpr int kMostBlanks = 8;
  std::optional<int> open_, close_;
  bool inside_;
  int blanks_left_ = 0;
};

// The tags of a known family (Qwen and most others, Mistral, Gemma 4) whose tokens the vocabulary has.
std::optional<ReasoningTags> find_reasoning_tags(const Tokenizer& tokenizer);

// Of a bound on all tokens, those that thoughts leave to the answer: a quarter, rounded up.
constexpr int answer_share(int bound) {
  return bound / 4 + (bound % 4 > 0);
}

// The tokens that close a thought which is cut: a sentence (empty: a default one), the closing tag, white
// space.
std::vector<int> closing_tokens(const Tokenizer& tokenizer, const std::string& sentence, int close);

// Whether a rendered prompt ends inside a block: its last open tag comes after its last close tag.
bool ends_inside_reasoning(std::string_view rendered, const ReasoningTags& tags);

// Whether the template itself left a block open. Tags that a message brings do not count.
bool opens_reasoning(const std::vector<PromptPiece>& pieces, const ReasoningTags& tags);

}  // namespace anabranch
