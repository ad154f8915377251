#include "text/output_text.h"

namespace anabranch::text {

OutputText::OutputText(const Tokenizer& tokenizer, std::vector<std::string> stop,
                       std::optional<ReasoningTags> tags, bool thinking_open)
    : tokenizer_(tokenizer), detokenizer_(tokenizer), stops_(std::move(stop)) {
  if (!tags) return;
  open_ = tokenizer.find(tags->open);
  close_ = tokenizer.find(tags->close);
  reasoning_.emplace(std::move(*tags), thinking_open);
}

std::string OutputText::cut(const std::string& text) {
  if (stopped_) return "";
  auto result = stops_.push(text);
  stopped_ = result.stopped;
  return std::move(result.text);
}

AnswerText OutputText::push(std::span<const int> tokens) {
  std::string text;
  for (int token : tokens) {
    // A tag that the vocabulary calls special would be left out of the text.
    const bool tag = reasoning_ && tokenizer_.is_special(token) && (token == open_ || token == close_);
    text += cut(tag ? detokenizer_.flush() + std::string(tokenizer_.token_bytes(token))
                    : detokenizer_.push(token));
  }
  return split(std::move(text));
}

AnswerText OutputText::finish() {
  std::string text = cut(detokenizer_.flush());
  if (!stopped_) text += stops_.flush();
  AnswerText result = split(std::move(text));
  if (reasoning_) {
    const auto rest = reasoning_->flush();
    result.content += rest.content;
    result.reasoning += rest.reasoning;
  }
  return result;
}

AnswerText OutputText::split(std::string text) {
  if (!reasoning_) return {std::move(text), ""};
  auto parts = reasoning_->push(text);
  return {std::move(parts.content), std::move(parts.reasoning)};
}

}  // namespace anabranch::text
