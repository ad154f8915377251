// Writes the answers of llama-server's /completion and /infill as JSON.
#pragma once

#include "server/api/answer_writer.h"
#include "server/api/llama/request.h"

namespace anabranch::server {

class LlamaWriter : public AnswerWriter {
 public:
  // prompts: their texts. The request's completion may be empty.
  LlamaWriter(bool stream, LlamaRequest request, std::vector<std::string> prompts)
      : AnswerWriter(stream), request_(std::move(request)), prompts_(std::move(prompts)) {}

  std::string begin(AnswerHead head, size_t choices) override;
  std::string started(const Usage& usage) override;
  std::string prefilled(size_t choice, const Usage& usage, int read, double seconds) override;
  std::string tokens(size_t choice, std::span<const int> tokens, const TakeLogprobs& logprobs) override;
  std::string event(size_t choice, const OutputEvent& event, const std::string& call_id,
                    const TakeLogprobs& logprobs) override;
  std::string choice_finished(size_t choice, const AnswerEnd& end, const TakeLogprobs& logprobs) override;
  std::string finish(const std::vector<AnswerEnd>& ends, const Usage& total) override;
  std::string failure(const ApiError& error) override;

 private:
  struct Choice {
    std::string text;  // of the whole answer
    Json tokens = Json::array(), logprobs = Json::array();
    int predicted = 0;
    bool new_line = false;
    Json last;  // its end part
  };

  Json part(size_t index, const std::string& text) const;
  Json end_of(size_t index, const AnswerEnd& end) const;
  Json chosen_fields(Json whole) const;

  const LlamaRequest request_;
  const std::vector<std::string> prompts_;
  AnswerHead head_;
  int prompt_tokens_ = 0;
  std::vector<Choice> choices_;
};

}  // namespace anabranch::server
