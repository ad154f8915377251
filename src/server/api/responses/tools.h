// The tools of the Responses API as functions that models know, and the model's calls as that API's items.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "chat/constraints.h"
#include "server/api/json_fields.h"
#include "server/api/mcp_offer.h"

namespace anabranch::server {

struct ResponseTool {
  // client: see client_tools.h. mcp: this server runs it. mcp_ask: this server runs it if the client
  // approves.
  enum class Kind { function, custom, client, mcp, mcp_ask };
  Kind kind = Kind::function;
  std::string name;   // the client's name for it
  std::string space;  // its namespace or MCP server; "": none
};

struct ResponseTools {
  Json functions = Json::array();             // in OpenAI's chat format, for the template
  std::map<std::string, ResponseTool> known;  // by the name that the model sees
  std::vector<std::string> left_out;          // types of tools that only OpenAI's servers run
  AgentTools agent;                           // the tools of MCP servers, which are also among `functions`
  std::vector<McpList> lists;                 // the lists of these servers
};

// Reads "tools" and "tool_choice". Fails for tools without a name, and for a choice that names none of them.
// With a choice of "allowed_tools" only those are offered. agent: its servers are asked for their tools,
// which may take a while.
ResponseTools read_response_tools(JsonFields& fields, ToolChoice& choice, AgentTools agent,
                                  const mcp::Cancelled& cancelled);

// The name that the model sees for a tool in a namespace.
std::string model_name(const std::string& space, const std::string& name);
// A call's item, without "id" and "status". arguments: JSON text.
Json call_item(const ResponseTools& tools, const std::string& model_name, const std::string& call_id,
               const std::string& arguments);
// The call in such an item: {"id", "type", "function": {"name", "arguments"}}; null for other items. MCP
// items have the call's id with another prefix.
Json call_of(const Json& item);

}  // namespace anabranch::server
