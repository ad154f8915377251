// Writes the answers of /v1/responses: a response object, or the events that build it.
#pragma once

#include "server/api/answer_writer.h"
#include "server/api/responses/request.h"

namespace anabranch::server {

class ResponsesWriter : public AnswerWriter {
 public:
  ResponsesWriter(bool stream, ResponsesRequest request, std::shared_ptr<ResponseContext> context);

  std::string begin(AnswerHead head, size_t choices) override;
  std::string event(size_t choice, const OutputEvent& event, const std::string& call_id,
                    const TakeLogprobs& logprobs) override;
  std::string call_started(const AgentCall& call) override;
  std::string call_finished(const AgentCall& call, const mcp::CallResult& result) override;
  std::string compacted(const Json& item) override;
  std::string choice_finished(size_t choice, const AnswerEnd& end, const TakeLogprobs& logprobs) override;
  std::string finish(const std::vector<AnswerEnd>& ends, const Usage& total) override;
  std::string failure(const ApiError& error) override;

 private:
  // The item that is being written.
  struct Item {
    OutputEvent::Kind kind;  // reasoning, content or call_begin
    Json json;               // complete except for text and status
    std::string text;        // of a call: its arguments
    std::string call_id, name;
    Json logprobs = Json::array();
  };

  std::string emit(const char* type, Json fields);
  std::string open(OutputEvent::Kind kind, const std::string& call_id, const std::string& name);
  std::string added(const Json& item);
  std::string add_text(const std::string& text, const TakeLogprobs& logprobs);
  std::string close(const char* status);
  std::string close_text(Item& item, const char* status);
  std::string close_call(Item& item);
  std::string list_tools(const McpList& list);
  std::string about_call(const char* event, const Json& item, size_t index, Json more = Json::object());
  Json part_of(const Item& item) const;
  Json place() const;
  Json response(const char* status, const Usage* usage) const;

  ResponsesRequest request_;
  const std::shared_ptr<ResponseContext> context_;
  AnswerHead head_;
  std::optional<Item> item_;
  Json output_ = Json::array();
  Json problem_;               // the response's "error"
  std::string not_kept_;       // why the answer could not be stored
  std::string stopped_;        // see AnswerEnd
  const char* cut_ = nullptr;  // why the response is incomplete
  int sequence_ = 0;
};

// The member "usage" of a response.
Json responses_usage(const Usage& usage);

// The events of a stored response, as a stream of its answer would have sent them. after: the number of the
// last event that the client has; -1: none.
std::string stored_events(const Json& response, int64_t after);

}  // namespace anabranch::server
