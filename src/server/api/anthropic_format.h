// Writes the answers of /v1/messages as JSON text: Anthropic's messages, their event streams, and its errors.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/api/openai_format.h"
#include "server/http/api_error.h"

namespace anabranch::server {

// How an answer ended.
struct MessageEnd {
  FinishReason finish = FinishReason::stop;
  int calls = 0;
  std::string stop_sequence;  // empty: none was found
  Usage usage;
};

// A content block of a message that is sent whole: reasoning, content, or a call (call_begin).
struct MessageBlock {
  OutputEvent::Kind kind;
  std::string text;           // of a call: its arguments, a JSON object
  std::string call_id, name;  // of calls
};
// Appends an event's text to its block, or begins a new block. call_id: as in event_chunk().
void add_event(std::vector<MessageBlock>& blocks, const OutputEvent& event, const std::string& call_id);
std::string whole_message(const AnswerHead& head, const std::vector<MessageBlock>& blocks,
                          const MessageEnd& end);

// The server-sent events of one message.
class MessageStream {
 public:
  // usage: that of the prompt.
  std::string start(const AnswerHead& head, const Usage& usage) const;
  std::string event(const OutputEvent& event, const std::string& call_id);
  std::string finish(const AnswerHead& head, const MessageEnd& end);

 private:
  std::string open(const OutputEvent& event, const std::string& call_id);
  std::string delta(Json delta) const;
  std::string close();

  int index_ = -1;                           // the last block's
  std::optional<OutputEvent::Kind> inside_;  // the kind of the block that is open
};
inline constexpr const char* kPingEvent = "event: ping\ndata: {\"type\": \"ping\"}\n\n";

std::string message_error_event(const ApiError& error);
// With Anthropic's own status: 529 when the server is overloaded or stopping.
HttpResponse message_error_response(const ApiError& error);

}  // namespace anabranch::server
