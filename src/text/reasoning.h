// The markers around a model's reasoning.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/tokenizer.h"

namespace anabranch::text {

struct ReasoningTags {
  std::string open = "<think>";
  std::string close = "</think>";
  std::string open_token;  // the token that `open` begins with, when it is more than one
};

// White space behind a thought is not yet the answer: so many tokens of it, at most.
inline constexpr int kMostBlanksBehindThought = 8;

// The tags of a known family (Qwen and most others, Mistral, Gemma 4) whose tokens the vocabulary has.
std::optional<ReasoningTags> find_reasoning_tags(const Tokenizer& tokenizer);

// Whether a rendered prompt ends inside a block: its last open tag comes after its last close tag.
bool ends_inside_reasoning(std::string_view rendered, const ReasoningTags& tags);

// Whether the template itself left a block open. Tags that a message brings do not count.
bool opens_reasoning(const std::vector<Piece>& pieces, const ReasoningTags& tags);

}  // namespace anabranch::text
