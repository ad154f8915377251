// Tools of MCP servers that a request offers to the model.
#pragma once

#include <string>

#include "base/json.h"
#include "server/api/agent_run.h"
#include "server/api/json_fields.h"

namespace anabranch::server {

// The tools of an MCP server, as the answer lists them.
struct McpList {
  std::string server;
  Json tools = Json::array();
  std::string error;  // why it has no tools; empty: no error
};

// Offers the server's tools that are in `allowed` (null: all). where: the field that names the server. Fails
// if there is no such server or the key may not use tools; other failures are in McpList::error.
McpList add_mcp_tools(JsonFields& fields, const std::string& where, const std::string& server,
                      const Json* allowed, const mcp::Cancelled& cancelled, AgentTools& tools,
                      Json& functions);

// The name that the model sees for a tool of an MCP server.
std::string mcp_function(const std::string& server, const std::string& tool);

}  // namespace anabranch::server
