// Writes the answers of /v1/generate: token ids, without texts. docs/generate.md describes them.
#pragma once

#include "server/api/answer_writer.h"

namespace anabranch::server {

class GenerateWriter : public AnswerWriter {
 public:
  // stop_tokens: the request's.
  GenerateWriter(bool stream, std::vector<int> stop_tokens)
      : AnswerWriter(stream), stop_tokens_(std::move(stop_tokens)) {}

  std::string begin(AnswerHead head, size_t choices) override;
  std::string tokens(size_t choice, std::span<const int> tokens, const TakeLogprobs& logprobs) override;
  std::string event(size_t, const OutputEvent&, const std::string&, const TakeLogprobs&) override {
    return "";
  }
  std::string choice_finished(size_t choice, const AnswerEnd& end, const TakeLogprobs& logprobs) override;
  std::string finish(const std::vector<AnswerEnd>& ends, const Usage& total) override;
  std::string failure(const ApiError& error) override;

 private:
  Json envelope(const char* object) const;
  void add_end(Json& to, const AnswerEnd& end) const;

  const std::vector<int> stop_tokens_;
  AnswerHead head_;
  std::vector<int> tokens_;  // of the whole answer; in streams only the last one
  Json logprobs_;            // of the whole answer
};

}  // namespace anabranch::server
