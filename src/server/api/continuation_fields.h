// The request fields that decide whether the final assistant message is continued.
#pragma once

#include <optional>

#include "chat/constraints.h"
#include "chat/continuation.h"
#include "server/api/json_fields.h"

namespace anabranch::server {

// Removes the message to continue from the messages and returns it; nothing if the answer is a new turn. In
// OpenAI's API "continue_final_message" or the message's "prefix" ask for continuation, and
// "continue_final_message": false or "add_generation_prompt": true forbid it. Without these fields a final
// assistant message is continued unless it has calls or a call is forced. Fails if the fields contradict each
// other.
std::optional<Continuation> read_continuation(JsonFields& fields, Json& messages, const ToolChoice& choice);
// In Anthropic's API a final assistant message is always continued.
std::optional<Continuation> read_prefill(JsonFields& fields, Json& messages, const ToolChoice& choice);

}  // namespace anabranch::server
