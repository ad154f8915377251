// The part of a user's message that may ask for something, as sentences.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "chat/request_words.h"

namespace anabranch::text {

struct Request {
  std::vector<Sentence> sentences;
  // The same, word for word, with what is negated masked: "don't", "no", "without" and what they stand before
  // in their clause, and the sentence before an answering "No, ...".
  std::vector<Sentence> wanted;
  bool has_code = false;   // a fenced block
  std::string fence;       // the word after its opening
  bool long_text = false;  // more than a question: the middle was left out
  // The paragraph that asks: the last one, or the first if only that is short.
  std::vector<Sentence> question;
};

// The sentences that may say what is wanted. Left out: code in fences, quoted text, and of a long message all
// but its beginning and its end, which is where instructions stand.
Request read_request(std::string_view message);
}  // namespace anabranch::text
