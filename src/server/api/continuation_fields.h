// The fields of requests that ask for a final message of the assistant's to be continued.
#pragma once

#include <optional>

#include "chat/constraints.h"
#include "chat/continuation.h"
#include "server/api/json_fields.h"

namespace anabranch::server {

// Takes such a message off the messages of a chat; nothing: the answer is a turn of its own. In OpenAI's form
// "continue_final_message" or the message's "prefix" ask for it, and "continue_final_message": false or
// "add_generation_prompt": true forbid it. Where nothing is said, a final message of the assistant's is
// continued unless it has calls or a call is forced. Fails where the fields contradict each other.
std::optional<Continuation> read_continuation(JsonFields& fields, Json& messages, const ToolChoice& choice);
// In Anthropic's, a final message of the assistant's is always continued.
std::optional<Continuation> read_prefill(JsonFields& fields, Json& messages, const ToolChoice& choice);

}  // namespace anabranch::server
