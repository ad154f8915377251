// Writes the answers of /v1/chat/completions and /v1/completions as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "chat/thinking.h"
#include "engine/engine.h"
#include "output/output_parser.h"

namespace anabranch::server {

// message and token_count are of Anthropic's API: anthropic_format.h.
enum class AnswerKind { chat, completion, message, token_count };

// Fields that every JSON object of an answer repeats.
struct AnswerHead {
  AnswerKind kind = AnswerKind::chat;
  std::string id;       // "chatcmpl-...", "cmpl-..."
  int64_t created = 0;  // Unix seconds
  std::string model;
  std::optional<ThinkReport> thinking;  // chat only
  bool usage_field = false;  // stream chunks carry "usage" (null before the last): the client asked for it
};

// The field "anabranch", for values that neither API has a field for: in an answer, or in a stream's last
// object.
Json extension(const AnswerHead& head, const Usage& usage);

// "stop", "length", or "tool_calls": the model stopped after `calls` calls.
std::string_view finish_name(FinishReason finish, int calls);

// One of the answers of a request that does not stream. logprobs, here and below: as LogprobsJson writes
// them, or null.
struct WholeChoice {
  const ParsedOutput& output;
  const std::vector<std::string>& call_ids;  // one for each call
  Json logprobs;
  FinishReason finish = FinishReason::stop;
  std::string cut;  // as of Usage
};
// usage: of all choices.
std::string whole_answer(const AnswerHead& head, std::vector<WholeChoice> choices, const Usage& usage);

// One server-sent event each; choice: its index. first: the chunk that names the role (chat only).
std::string first_chunk(const AnswerHead& head, int choice);
// call_id: for an event that begins a call. Not to be called for call_end.
std::string event_chunk(const AnswerHead& head, int choice, const OutputEvent& event,
                        const std::string& call_id, Json logprobs);
std::string finish_chunk(const AnswerHead& head, int choice, Json logprobs, FinishReason finish, int calls,
                         const Usage& usage);
std::string usage_chunk(const AnswerHead& head, const Usage& usage);
inline constexpr std::string_view kDoneEvent = "data: [DONE]\n\n";

}  // namespace anabranch::server
