// Takes a model's reasoning and its answer apart while they stream.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/tokenizer.h"

namespace anabranch::text {

// The markers around reasoning.
struct ReasoningTags {
  std::string open = "<think>";
  std::string close = "</think>";
};

// The tags, if both are tokens of the vocabulary.
std::optional<ReasoningTags> find_reasoning_tags(const Tokenizer& tokenizer);

// Whether a rendered prompt ends inside a block: its last open tag comes after its last close tag.
bool ends_inside_reasoning(std::string_view rendered, const ReasoningTags& tags);

// Whether the template itself left a block open. Tags that a message brings do not count.
bool opens_reasoning(const std::vector<Piece>& pieces, const ReasoningTags& tags);

struct ReasoningDelta {
  std::string reasoning, content;
};

// However the text is cut into pushes, the joined outputs are the same. Tags appear in neither; white space
// at the borders of a block (after either tag, and before the closing one) is dropped.
class ReasoningSplitter {
 public:
  // open: the stream starts inside a block.
  ReasoningSplitter(ReasoningTags tags, bool open) : tags_(std::move(tags)), inside_(open), trim_(open) {}
  ReasoningDelta push(std::string_view text);
  ReasoningDelta flush();

 private:
  void emit(std::string_view text, ReasoningDelta& out);

  ReasoningTags tags_;
  bool inside_;
  bool trim_;           // drop white space until something else comes
  std::string held_;    // may be the start of a tag
  std::string spaces_;  // white space within reasoning that may be its last
};

}  // namespace anabranch::text
