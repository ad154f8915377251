// Writes the answers of /v1/messages as JSON text: Anthropic's messages, their event streams, and its errors.
#pragma once

#include "chat/cache_mark.h"
#include "server/api/answer_writer.h"

namespace anabranch::server {

class MessageWriter : public AnswerWriter {
 public:
  // left_out_tools: see ChatRequest. tools: the tools that this server runs.
  MessageWriter(bool stream, std::vector<std::string> left_out_tools, AgentTools tools = {})
      : AnswerWriter(stream), left_out_tools_(std::move(left_out_tools)), tools_(std::move(tools)) {}

  // The places at which the client asks for a state that stays; the usage counts what is stored up to there.
  void set_marks(std::vector<MarkedLength> marks) { marks_ = std::move(marks); }
  std::string_view heartbeat() const override { return "event: ping\ndata: {\"type\": \"ping\"}\n\n"; }
  std::string begin(AnswerHead head, size_t choices) override;
  std::string started(const Usage& usage) override;
  std::string event(size_t choice, const OutputEvent& event, const std::string& call_id,
                    const TakeLogprobs& logprobs) override;
  std::string call_finished(const AgentCall& call, const mcp::CallResult& result) override;
  std::string choice_finished(size_t, const AnswerEnd&, const TakeLogprobs&) override { return ""; }
  std::string finish(const std::vector<AnswerEnd>& ends, const Usage& total) override;
  std::string failure(const ApiError& error) override;

 private:
  // A content block of a message that is sent whole: reasoning, content, a call (call_begin), or the result
  // of one that this server ran (call_end).
  struct Block {
    OutputEvent::Kind kind;
    std::string text;  // of a call: its arguments, a JSON object; of a result: the whole block as sent
    Json start;        // the block before its first text
  };
  Json empty_block(OutputEvent::Kind kind, const std::string& call_id, const std::string& name) const;

  void add(const OutputEvent& event, const std::string& call_id);
  std::string open(const OutputEvent& event, const std::string& call_id);
  std::string delta(Json delta) const;
  std::string close();
  std::string whole(const AnswerEnd& end) const;
  Json usage_json(const Usage& usage) const;
  static std::string text_of(const Block& block);

  Json extension_of(const AnswerEnd& end) const;

  const std::vector<std::string> left_out_tools_;
  const AgentTools tools_;
  bool started_ = false;  // the model has begun its first turn
  std::vector<MarkedLength> marks_;
  CacheWrites writes_;  // of the first turn: later ones store nothing new before the marks
  AnswerHead head_;
  std::vector<Block> blocks_;                // of a message that is sent whole
  int index_ = -1;                           // the last block's, in a stream
  std::optional<OutputEvent::Kind> inside_;  // the kind of the block that is open
  std::optional<std::string> own_input_;     // in a stream: the input so far of a call that this server runs
};

// Uses Anthropic's own status codes: 529 when the server is overloaded or stopping.
HttpResponse message_error_response(const ApiError& error);

}  // namespace anabranch::server
