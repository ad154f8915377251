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
  using Begin = ThoughtTracker::Begin;
  const Begin begin = rules.thinking_open ? Begin::thought : rules.goes_on ? Begin::answer : Begin::turn;
  if (!rules.format.reasoning) return {std::nullopt, std::nullopt, begin};
  const ReasoningTags& tags = *rules.format.reasoning;
  const auto close = tokenizer.find(tags.close);
  if (auto messages = message_tokens(tags, tokenizer); messages && close)
    return {std::move(*messages), *close, begin, false};
  return {tokenizer.find(tags.open_token.empty() ? tags.open : tags.open_token), close, begin,
          tags.blanks_before};
}

OutputRules with_tokens(const Tokenizer& tokenizer, OutputRules rules) {
  for (const Marker& marker : markers_of(tokenizer, rules)) rules.tokens.emplace_back(marker.text);
  // They begin with a token.
  if (rules.format.reasoning && rules.format.reasoning->are_messages())
    rules.tokens.insert(rules.tokens.end(), {std::string(kMessageCallOpen), std::string(kThoughtOpen)});
  return rules;
}

std::optional<MessageReader> message_reader(const OutputRules& rules) {
  using Part = MessageReader::Part;
  if (!rules.format.reasoning || !rules.format.reasoning->are_messages()) return std::nullopt;
  const Part begin = rules.thinking_open ? Part::thought : rules.goes_on ? Part::content : Part::header;
  return MessageReader(begin, rules.reads_calls());
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
      parser_(with_tokens(tokenizer, rules)),
      messages_(message_reader(rules)) {
  for (const Marker& marker : markers_of(tokenizer, rules)) markers_.push_back(marker.token);
}

std::string OutputText::text_of(int token) {
  std::string text;
  stop_token_found_ = std::find(stop_tokens_.begin(), stop_tokens_.end(), token) != stop_tokens_.end();
  if (stop_token_found_ && !keep_stop_) return text;
  if (std::find(markers_.begin(), markers_.end(), token) != markers_.end()) {
    // The detokenizer would leave out a marker that the vocabulary calls special.
    text = take(detokenizer_.flush(), false);
    text += take(tokenizer_.token_bytes(token), true);
  } else {
    text = take(detokenizer_.push(token), false);
  }
  if (thought_.accept(token, is_blank(tokenizer_.token_bytes(token)))) {
    const std::string before = stops_.flush();
    return stops_.stopped() ? before : before + text;
  }
  answer_tokens_++;
  return cut_at_stop(std::move(text));
}

// Text of the answer, up to a stop string. The tag that closes a thought before it is none of it.
std::string OutputText::cut_at_stop(std::string text) {
  std::string tag;
  if (messages_ && text.starts_with(kThoughtClose)) {
    tag = stops_.flush();
    if (stops_.stopped()) return tag;
    tag += kThoughtClose;
    text.erase(0, kThoughtClose.size());
  }
  return tag + stops_.push(text, answer_tokens_ > min_tokens_).text;
}

std::string OutputText::take(std::string_view piece, bool mark) {
  std::string text;
  std::vector<size_t> marks;
  if (messages_)
    messages_->push(piece, mark, text, marks);
  else
    text = piece;
  if (!messages_ && mark) marks.push_back(0);
  place(text, marks);
  return text;
}

// Tells the parser where in the text that follows marks begin.
void OutputText::place(const std::string& text, const std::vector<size_t>& marks) {
  for (const size_t at : marks) parser_.mark(length_ + at);
  length_ += text.size();
}

std::vector<OutputEvent> OutputText::push(std::span<const int> tokens) {
  std::string text;
  for (const int token : tokens) text += text_of(token);
  std::vector<OutputEvent> events;
  parser_.push(text, events);
  return events;
}

std::vector<OutputEvent> OutputText::finish(bool cut) {
  std::string text = take(detokenizer_.flush(), false);
  if (messages_) {
    std::string last;
    std::vector<size_t> marks;
    messages_->finish(last, marks);
    place(last, marks);
    text += last;
  }
  if (!thought_.inside()) text = cut_at_stop(std::move(text));
  if (!stopped()) text += stops_.flush();
  std::vector<OutputEvent> events;
  parser_.push(text, events);
  parser_.finish(events, cut || stops_.stopped() || stop_token_found_);
  return events;
}

}  // namespace anabranch
