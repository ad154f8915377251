// Writes the answers of Ollama's /api/chat and /api/generate as JSON: a stream is one object a line.
#pragma once

#include "server/api/answer_writer.h"

namespace anabranch::server {

// {"error": message}
HttpResponse ollama_error_response(const ApiError& error);
// The answer to a request that only loads or unloads a model.
Json ollama_loaded(const std::string& model, bool generate, bool unloads);

class OllamaWriter : public AnswerWriter {
 public:
  explicit OllamaWriter(bool stream) : AnswerWriter(stream) {}

  std::string_view stream_type() const override { return "application/x-ndjson"; }
  // A space before the next line: JSON may begin with spaces.
  std::string_view heartbeat() const override { return " "; }

  std::string begin(AnswerHead head, size_t choices) override;
  std::string event(size_t choice, const OutputEvent& event, const std::string& call_id,
                    const TakeLogprobs& logprobs) override;
  std::string choice_finished(size_t choice, const AnswerEnd& end, const TakeLogprobs& logprobs) override;
  std::string finish(const std::vector<AnswerEnd>& ends, const Usage& total) override;
  std::string failure(const ApiError& error) override;

 private:
  bool is_chat() const { return head_.kind == AnswerKind::ollama_chat; }
  Json object(const std::string& content, const std::string& thinking, Json calls) const;
  std::string line(Json json, const Json& logprobs) const;
  // The last call, once it is complete. None: its arguments are not an object, because the answer was cut.
  std::optional<Json> whole_call() const;

  AnswerHead head_;
  ParsedOutput output_;  // the whole answer; in a stream, only its calls
  std::vector<std::string> call_ids_;
  std::vector<Json> calls_;  // complete ones
  Json logprobs_;
};

}  // namespace anabranch::server
