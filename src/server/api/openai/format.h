// Writes the answers of /v1/chat/completions and /v1/completions as JSON.
#pragma once

#include "server/api/answer_writer.h"
#include "server/api/chat_tools.h"

namespace anabranch::server {

class OpenAiWriter : public AnswerWriter {
 public:
  // include_usage: a stream's chunks carry "usage" (null before the last).
  OpenAiWriter(bool stream, bool include_usage, CustomTools custom = {})
      : AnswerWriter(stream), include_usage_(include_usage), custom_(std::move(custom)) {}

  std::string begin(AnswerHead head, size_t choices) override;
  std::string prefilled(size_t choice, const Usage& usage, int read, double seconds) override;
  std::string event(size_t choice, const OutputEvent& event, const std::string& call_id,
                    const TakeLogprobs& logprobs) override;
  std::string choice_finished(size_t choice, const AnswerEnd& end, const TakeLogprobs& logprobs) override;
  std::string finish(const std::vector<AnswerEnd>& ends, const Usage& total) override;
  std::string failure(const ApiError& error) override;

 private:
  // The parts of an answer that is sent whole.
  struct Choice {
    ParsedOutput output;
    std::vector<std::string> call_ids;
    Json logprobs;
    std::optional<std::string> custom_call;  // in a stream: the arguments so far of a call of a custom tool
  };

  bool is_chat() const { return head_.kind == AnswerKind::chat; }
  Json whole_calls(const Choice& choice) const;
  std::optional<Json> delta_of(Choice& choice, const OutputEvent& event, const std::string& call_id) const;
  Json envelope(const char* chat_object) const;
  Json chunk(size_t index, Json choice, Json logprobs, Json finish) const;
  Json whole_choice(size_t index, const AnswerEnd& end);

  const bool include_usage_;
  const CustomTools custom_;
  AnswerHead head_;
  std::vector<Choice> choices_;
};

}  // namespace anabranch::server
