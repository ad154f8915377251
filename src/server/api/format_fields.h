// The fields of requests that restrict the answer, under the names that other servers gave them.
#pragma once

#include "chat/constraints.h"
#include "server/api/json_fields.h"

namespace anabranch::server {

// "response_format", Anthropic's "output_config.format" and "output_format", and what other servers call it:
// at most one of them. Constraints that cannot be kept are refused by name.
ResponseFormat read_response_format(JsonFields& fields);
// OpenAI's.
ToolChoice read_tool_choice(JsonFields& fields);
// Fails where a choice needs a tool that is not offered. tools: OpenAI's array, or null.
void check_tool_choice(JsonFields& fields, const ToolChoice& choice, const Json& tools);

}  // namespace anabranch::server
