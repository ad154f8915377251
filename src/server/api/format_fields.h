// The request fields that restrict the answer, including the names that other servers use.
#pragma once

#include "chat/constraints.h"
#include "server/api/json_fields.h"

namespace anabranch::server {

// Reads "response_format", Anthropic's "output_config.format" and "output_format", and the names of other
// servers. At most one may be present. Unsupported constraints are refused by name.
ResponseFormat read_response_format(JsonFields& fields);
// Reads OpenAI's "tool_choice".
ToolChoice read_tool_choice(JsonFields& fields);
// Fails if the choice needs a tool that the request does not offer. tools: OpenAI's array, or null.
void check_tool_choice(JsonFields& fields, const ToolChoice& choice, const Json& tools);
// Whether an answer may have several calls: "parallel_tool_calls", or what an object of "tool_choice" says in
// Anthropic's form.
bool read_parallel_calls(JsonFields& fields);

}  // namespace anabranch::server
