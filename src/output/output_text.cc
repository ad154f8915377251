#include "output/output_text.h"

#include <algorithm>

#include "base/white_space.h"

namespace anabranch {

namespace {

struct Marker {
  int token;
  std::string_view text;
};

std::vector<Marker> markers_of(const Tokenizer& tokenizer, const OutputRules& rules) {
  std::vector<Marker> found;
  for (const std::string_view marker : marker_tokens(rules))
    if (const auto token = tokenizer.find(marker)) found.push_back({*token, marker});
  return found;
}

ThoughtTracker tracker(const Tokenizer& tokenizer, const OutputRules& rules) {
  if (!rules.format.reasoning) return {std::nullopt, std::nullopt, false};
  const ReasoningTags& tags = *rules.format.reasoning;
  return {tokenizer.find(tags.open_token.empty() ? tags.open : tags.open_token), tokenizer.find(tags.close),
          rules.thinking_open};
}

OutputRules with_tokens(const Tokenizer& tokenizer, OutputRules rules) {
  for (const Marker& marker : markers_of(tokenizer, rules)) rules.tokens.emplace_back(marker.text);
  return rules;
}

}  // namespace

OutputText::OutputText(const Tokenizer& tokenizer, std::vector<std::string> stop, const OutputRules& rules)
    : tokenizer_(tokenizer),
      detokenizer_(tokenizer),
      stops_(std::move(stop), rules.keep_stop),
      thought_(tracker(tokenizer, rules)),
      stop_tokens_(rules.stop_tokens),
      keep_stop_(rules.keep_stop),
      min_tokens_(rules.min_tokens),
      parser_(with_tokens(tokenizer, rules)) {
  for (const Marker& marker : markers_of(tokenizer, rules)) markers_.push_back(marker.token);
}

std::string OutputText::text_of(int token) {
  std::string text;
  stop_token_found_ = std::find(stop_tokens_.begin(), stop_tokens_.end(), token) != stop_tokens_.end();
  if (stop_token_found_ && !keep_stop_) return text;
  if (std::find(markers_.begin(), markers_.end(), token) != markers_.end()) {
    // The detokenizer would leave out a marker that the vocabulary calls special.
    text = detokenizer_.flush();
    parser_.mark(length_ + text.size());
    text += tokenizer_.token_bytes(token);
  } else {
    text = detokenizer_.push(token);
  }
  length_ += text.size();
  if (thought_.accept(token, is_blank(tokenizer_.token_bytes(token)))) {
    const std::string before = stops_.flush();
    return stops_.stopped() ? before : before + text;
  }
  return stops_.push(text, ++answer_tokens_ > min_tokens_).text;
}

std::vector<OutputEvent> OutputText::push(std::span<const int> tokens) {
  std::string text;
  for (const int token : tokens) text += text_of(token);
  std::vector<OutputEvent> events;
  parser_.push(text, events);
  return events;
}

std::vector<OutputEvent> OutputText::finish(bool cut) {
  std::string text = detokenizer_.flush();
  if (!thought_.inside()) text = stops_.push(text, answer_tokens_ > min_tokens_).text;
  if (!stopped()) text += stops_.flush();
  std::vector<OutputEvent> events;
  parser_.push(text, events);
  parser_.finish(events, cut || stops_.stopped() || stop_token_found_);
  return events;
}

}  // namespace anabranch
