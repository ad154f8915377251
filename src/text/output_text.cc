#include "text/output_text.h"

#include <algorithm>

#include "text/white_space.h"

namespace anabranch::text {

OutputText::OutputText(const Tokenizer& tokenizer, std::vector<std::string> stop, OutputRules rules)
    : tokenizer_(tokenizer), detokenizer_(tokenizer), stops_(std::move(stop)), parser_(rules) {
  if (const auto& tags = rules.format.reasoning) {
    think_open_ = tokenizer.find(tags->open);
    think_close_ = tokenizer.find(tags->close);
    thinking_ = rules.thinking_open && think_close_;
  }
  for (const std::string_view marker : marker_tokens(rules)) {
    const auto token = tokenizer.find(marker);
    if (token && tokenizer.is_special(*token)) markers_.push_back(*token);
  }
}

std::string OutputText::cut(const std::string& text) {
  if (stopped_) return "";
  auto result = stops_.push(text);
  stopped_ = result.stopped;
  return std::move(result.text);
}

std::string OutputText::text_of(int token) {
  // A marker that the vocabulary calls special would be left out of the text.
  const bool marker = std::find(markers_.begin(), markers_.end(), token) != markers_.end();
  std::string text =
      marker ? detokenizer_.flush() + std::string(tokenizer_.token_bytes(token)) : detokenizer_.push(token);
  if (token == think_open_) {
    thinking_ = true;
  } else if (token == think_close_ && thinking_) {
    thinking_ = false;
    behind_thought_ = true;
  } else if (behind_thought_) {
    behind_thought_ = is_blank(tokenizer_.token_bytes(token));
  }
  if (!thinking_ && !behind_thought_) return cut(text);
  return stopped_ ? "" : stops_.flush() + text;
}

std::vector<OutputEvent> OutputText::push(std::span<const int> tokens) {
  std::string text;
  for (const int token : tokens) text += text_of(token);
  std::vector<OutputEvent> events;
  parser_.push(text, events);
  return events;
}

std::vector<OutputEvent> OutputText::finish() {
  std::string text = thinking_ ? detokenizer_.flush() : cut(detokenizer_.flush());
  if (!stopped_) text += stops_.flush();
  std::vector<OutputEvent> events;
  parser_.push(text, events);
  parser_.finish(events);
  return events;
}

}  // namespace anabranch::text
