// From a request's tokens to what the client reads: detokenised, cut at stop strings, reasoning apart.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "server/openai_format.h"
#include "text/reasoning.h"
#include "text/stop_matcher.h"
#include "text/tokenizer.h"

namespace anabranch::server {

class OutputText {
 public:
  // split_reasoning: text inside think blocks goes to `reasoning`; otherwise everything is content.
  OutputText(const text::Tokenizer& tokenizer, std::vector<std::string> stop, bool split_reasoning,
             bool thinking_open);
  // The text that became certain with these tokens; text that may yet turn out to be (part of) a stop string
  // or a tag is held back.
  AnswerText push(std::span<const int> tokens);
  // What was held back, when no token follows.
  AnswerText finish();
  // A stop string was found: everything from it on is dropped.
  bool stopped() const { return stopped_; }

 private:
  AnswerText split(std::string text, bool last);

  text::Detokenizer detokenizer_;
  text::StopMatcher stops_;
  text::ReasoningSplitter reasoning_;
  const bool split_reasoning_;
  bool stopped_ = false;
};

}  // namespace anabranch::server
