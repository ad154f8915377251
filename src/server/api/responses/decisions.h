// The user's decisions on calls of MCP tools, which come with the input of a request for an answer.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "server/api/json_fields.h"
#include "server/api/responses/request.h"

namespace anabranch::server {

// The user's decisions on calls: {call id: reason}; no reason: approved.
using Decisions = std::map<std::string, std::optional<std::string>>;

// Decides on the calls of MCP tools in the last assistant message that have no result yet. Approved ones are
// run before the model continues; the others get a "not run" result after the message. own: index of the
// request's first message; it moves when a result is inserted before it. Returns the calls that were
// declined.
std::vector<std::string> decide_calls(JsonFields& fields, const Decisions& decisions,
                                      ResponsesRequest& request, Json& messages, size_t& own);

}  // namespace anabranch::server
