#include "text/reasoning.h"

#include <algorithm>

namespace anabranch::text {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

// How many bytes at the end of `text` could be the start of `tag`.
size_t possible_start(std::string_view text, std::string_view tag) {
  for (size_t n = std::min(tag.size() - 1, text.size()); n > 0; n--)
    if (text.substr(text.size() - n) == tag.substr(0, n)) return n;
  return 0;
}

}  // namespace

std::optional<ReasoningTags> find_reasoning_tags(const Tokenizer& tokenizer) {
  ReasoningTags tags;
  if (tokenizer.find(tags.open) && tokenizer.find(tags.close)) return tags;
  return std::nullopt;
}

bool ends_inside_reasoning(std::string_view rendered, const ReasoningTags& tags) {
  const auto open = rendered.rfind(tags.open), close = rendered.rfind(tags.close);
  return open != std::string_view::npos && (close == std::string_view::npos || close < open);
}

bool opens_reasoning(const std::vector<Piece>& pieces, const ReasoningTags& tags) {
  std::string own;
  for (const Piece& piece : pieces)
    if (piece.trusted) own += piece.text;
  return ends_inside_reasoning(own, tags);
}

void ReasoningSplitter::emit(std::string_view text, ReasoningDelta& out) {
  if (trim_) {
    const auto first = text.find_first_not_of(kSpace);
    if (first == std::string_view::npos) return;
    text.remove_prefix(first);
    trim_ = false;
  }
  if (!inside_) {
    out.content += text;
    return;
  }
  const auto last = text.find_last_not_of(kSpace);
  if (last == std::string_view::npos) {
    spaces_ += text;
    return;
  }
  out.reasoning += spaces_;
  out.reasoning += text.substr(0, last + 1);
  spaces_ = text.substr(last + 1);
}

ReasoningDelta ReasoningSplitter::push(std::string_view text) {
  ReasoningDelta out;
  held_ += text;
  for (;;) {
    // Both tags are taken out wherever they stand: models close twice, or open what the template had opened.
    const size_t open = held_.find(tags_.open), close = held_.find(tags_.close), at = std::min(open, close);
    if (at == std::string::npos) break;
    emit(std::string_view(held_).substr(0, at), out);
    held_.erase(0, at + (open < close ? tags_.open : tags_.close).size());
    inside_ = open < close;
    trim_ = true;
    spaces_.clear();
  }
  const size_t keep = std::max(possible_start(held_, tags_.open), possible_start(held_, tags_.close));
  emit(std::string_view(held_).substr(0, held_.size() - keep), out);
  held_.erase(0, held_.size() - keep);
  return out;
}

ReasoningDelta ReasoningSplitter::flush() {
  ReasoningDelta out;
  emit(held_, out);
  held_.clear();
  spaces_.clear();
  return out;
}

}  // namespace anabranch::text
