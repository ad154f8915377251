// Tokenises the texts of one request, and stops when they have more tokens than anyone wants, or when nobody
// waits for them any more.
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
  // most_tokens: of one prompt. context: the model's context length; 0: it does not matter for the request.
  RequestEncoder(const Tokenizer& tokenizer, size_t most_tokens, size_t context,
                 const std::function<bool()>& cancelled)
      : tokenizer_(tokenizer), context_(context), limit_(most_tokens, cancelled) {}

  // The tokens of a text that comes after so many others of its prompt. After a stop they are not all there,
  // and those of later texts are none.
  std::vector<int> encode(const std::string& text, bool special, size_t before = 0) {
    if (limit_.stopped()) return {};
    limit_.go_on_after(before);
    return tokenizer_.encode(text, special, &limit_);
  }
  bool stopped() const { return limit_.stopped(); }
  // Why it stopped, for the client. field: where the texts stand.
  ApiError error(const std::string& field) const;
  const Tokenizer& tokenizer() const { return tokenizer_; }

 private:
  const Tokenizer& tokenizer_;
  const size_t context_;
  EncodeLimit limit_;
};

}  // namespace anabranch::server
