#include "server/output_text.h"

namespace anabranch::server {

OutputText::OutputText(const text::Tokenizer& tokenizer, std::vector<std::string> stop, bool split_reasoning,
                       bool thinking_open)
    : detokenizer_(tokenizer),
      stops_(std::move(stop)),
      reasoning_(thinking_open),
      split_reasoning_(split_reasoning) {}

AnswerText OutputText::push(std::span<const int> tokens) {
  std::string text;
  for (int token : tokens) {
    if (stopped_) break;
    text += stops_.push(detokenizer_.push(token));
    stopped_ = stops_.matched();
  }
  return split(std::move(text), false);
}

AnswerText OutputText::finish() {
  std::string text;
  if (!stopped_) {
    text = stops_.push(detokenizer_.flush());
    stopped_ = stops_.matched();
  }
  if (!stopped_) text += stops_.flush();
  return split(std::move(text), true);
}

AnswerText OutputText::split(std::string text, bool last) {
  AnswerText result;
  if (!split_reasoning_) {
    result.content = std::move(text);
    return result;
  }
  auto parts = reasoning_.push(text);
  result.content = std::move(parts.content);
  result.reasoning = std::move(parts.reasoning);
  if (last) {
    parts = reasoning_.flush();
    result.content += parts.content;
    result.reasoning += parts.reasoning;
  }
  return result;
}

}  // namespace anabranch::server
