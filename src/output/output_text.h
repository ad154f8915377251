// Turns a request's tokens into text for people: detokenised, cut at stop strings, split into reasoning,
// content and tool calls.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "output/message_reader.h"
#include "output/output_parser.h"
#include "output/stop_matcher.h"
#include "tokenizer/tokenizer.h"

namespace anabranch {

class OutputText {
 public:
  OutputText(const Tokenizer& tokenizer, std::vector<std::string> stop, const OutputRules& rules);
  // Returns the events that these tokens made certain. Text that may still become part of a stop string, a
  // tag or a call is held back.
  std::vector<OutputEvent> push(std::span<const int> tokens);
  // Returns the events that were held back; call it when no token follows. cut: something else than the model
  // or a stop string ended the text.
  std::vector<OutputEvent> finish(bool cut = false);
  // Whether a stop string or the last allowed call was found: everything from it on is dropped.
  bool stopped() const { return stops_.stopped() || parser_.done(); }
  // See OutputParser.
  bool done_inside_block() const { return parser_.done_inside_block(); }
  // Whether the last token was a stop token (OutputRules::stop_tokens).
  bool stop_token_found() const { return stop_token_found_; }
  // The stop string that was found; empty: none.
  const std::string& stop_found() const { return stops_.found(); }

 private:
  std::string text_of(int token);
  // The piece in the form for the parser. mark: it is a marker, which is a token.
  std::string take(std::string_view piece, bool mark);
  void place(const std::string& text, const std::vector<size_t>& marks);
  std::string cut_at_stop(std::string text);

  const Tokenizer& tokenizer_;
  Detokenizer detokenizer_;
  StopMatcher stops_;
  std::vector<int> markers_;
  size_t length_ = 0;       // of the text so far, stop strings and what follows them included
  ThoughtTracker thought_;  // stop strings count in answers only
  const std::vector<int> stop_tokens_;
  const bool keep_stop_;
  const int min_tokens_;
  int answer_tokens_ = 0;
  bool stop_token_found_ = false;
  OutputParser parser_;
  std::optional<MessageReader> messages_;
};

}  // namespace anabranch
