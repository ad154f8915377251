// Reads the JSON bodies of /v1/messages and /v1/messages/count_tokens into a ChatRequest: Anthropic's
// messages, tools and thinking become those of a chat. Features that are not supported are refused by name;
// unknown fields are ignored.
#pragma once

#include "server/api/agent_run.h"
#include "server/api/common_fields.h"

namespace anabranch::server {

// counting: the body is for count_tokens, which needs no "max_tokens". tools: gets the tools of the MCP
// servers that the body names; these servers are asked for their tools. Null: there are no MCP servers.
// cancelled: see mcp::Servers.
ApiResult<ChatRequest> parse_messages_request(std::string_view body, const RequestDefaults& defaults,
                                              bool counting, AgentTools* tools = nullptr,
                                              const mcp::Cancelled& cancelled = {});

}  // namespace anabranch::server
