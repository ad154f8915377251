// /v1/mcp: the MCP servers, their tools, resources and prompts, and the calls that ran.
#pragma once

#include <memory>
#include <string>

#include "base/json.h"
#include "mcp/servers.h"
#include "server/api/wait_pool.h"
#include "server/http/types.h"

namespace anabranch::server {

// The state of each server, without starting or asking any. servers: null for none.
Json mcp_servers_json(const mcp::Servers* servers);
// Asks all servers in parallel for their tools, which starts those that are not running; then answers with
// mcp_servers_json(). owner: the name of the client's key.
void ask_mcp_servers(std::shared_ptr<mcp::Servers> servers, const std::string& owner, WaitPool& workers,
                     const Post& post, std::shared_ptr<ResponseStream> out);
// The latest tool calls of the key named `owner`, newest first.
Json mcp_calls_json(const mcp::Servers* servers, const std::string& owner);

}  // namespace anabranch::server
