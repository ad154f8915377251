// /v1/mcp: which MCP servers there are, what they offer, and which of their tools ran.
#pragma once

#include "base/json.h"
#include "mcp/servers.h"

namespace anabranch::server {

// Asks each server what it offers, which may take a while. servers: null for none.
Json mcp_servers_json(mcp::Servers* servers);
// The latest calls of this key, newest first.
Json mcp_calls_json(const mcp::Servers* servers, const std::string& owner);

}  // namespace anabranch::server
