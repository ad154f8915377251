#include "text/output_text.h"

#include <algorithm>

namespace anabranch::text {

OutputText::OutputText(const Tokenizer& tokenizer, std::vector<std::string> stop, OutputRules rules)
    : tokenizer_(tokenizer), detokenizer_(tokenizer), stops_(std::move(stop)), parser_(rules) {
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

std::vector<OutputEvent> OutputText::push(std::span<const int> tokens) {
  std::string text;
  for (int token : tokens) {
    // A marker that the vocabulary calls special would be left out of the text.
    const bool marker = std::find(markers_.begin(), markers_.end(), token) != markers_.end();
    text += cut(marker ? detokenizer_.flush() + std::string(tokenizer_.token_bytes(token))
                       : detokenizer_.push(token));
  }
  std::vector<OutputEvent> events;
  parser_.push(text, events);
  return events;
}

std::vector<OutputEvent> OutputText::finish() {
  std::string text = cut(detokenizer_.flush());
  if (!stopped_) text += stops_.flush();
  std::vector<OutputEvent> events;
  parser_.push(text, events);
  parser_.finish(events);
  return events;
}

}  // namespace anabranch::text
