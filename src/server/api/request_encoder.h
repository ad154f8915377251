// Tokenises the texts of one request. Stops when they have more tokens than the limit, or when nobody waits
// for them any more.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "server/http/api_error.h"
#include "tokenizer/encode_limit.h"
#include "tokenizer/tokenizer.h"

namespace anabranch::server {

class RequestEncoder {
 public:
  // most_tokens: limit for one prompt. context: the model's context length; 0: not relevant for the request.
  RequestEncoder(const Tokenizer& tokenizer, size_t most_tokens, size_t context,
                 const std::function<bool()>& cancelled)
      : tokenizer_(tokenizer), context_(context), limit_(most_tokens, cancelled) {}

  // The tokens of a text. before: the number of tokens before it in its prompt. After a stop the tokens are
  // incomplete, and later texts give none.
  std::vector<int> encode(const std::string& text, bool special, size_t before = 0) {
    if (limit_.stopped()) return {};
    limit_.go_on_after(before);
    return tokenizer_.encode(text, special, &limit_);
  }
  bool stopped() const { return limit_.stopped(); }
  // Why it stopped, for the client. field: the field with the texts.
  ApiError error(const std::string& field) const;
  const Tokenizer& tokenizer() const { return tokenizer_; }

 private:
  const Tokenizer& tokenizer_;
  const size_t context_;
  EncodeLimit limit_;
};

}  // namespace anabranch::server
