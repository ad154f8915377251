// From a request's tokens to what people read: detokenised, cut at stop strings, reasoning apart.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "text/reasoning.h"
#include "text/stop_matcher.h"
#include "text/tokenizer.h"

namespace anabranch::text {

struct AnswerText {
  std::string content, reasoning;
};

class OutputText {
 public:
  // tags: text between them goes to `reasoning`; without them everything is content.
  OutputText(const Tokenizer& tokenizer, std::vector<std::string> stop, std::optional<ReasoningTags> tags,
             bool thinking_open);
  // The text that became certain with these tokens; text that may yet turn out to be (part of) a stop string
  // or a tag is held back.
  AnswerText push(std::span<const int> tokens);
  // What was held back, when no token follows.
  AnswerText finish();
  // A stop string was found: everything from it on is dropped.
  bool stopped() const { return stopped_; }

 private:
  std::string cut(const std::string& text);
  AnswerText split(std::string text);

  const Tokenizer& tokenizer_;
  Detokenizer detokenizer_;
  StopMatcher stops_;
  std::optional<ReasoningSplitter> reasoning_;
  std::optional<int> open_, close_;  // the tags' tokens
  bool stopped_ = false;
};

}  // namespace anabranch::text
