#include "server/api/mcp_offer.h"

#include <algorithm>

#include "server/http/api_keys.h"

namespace anabranch::server {

std::string mcp_function(const std::string& server, const std::string& tool) {
  const mcp::Tool named{.server = server, .name = tool};
  mcp::Toolbox box;
  box.add(named);
  return box.name_of(named);
}

McpList add_mcp_tools(JsonFields& fields, const std::string& where, const std::string& server,
                      const Json* allowed, const mcp::Cancelled& cancelled, AgentTools& tools,
                      Json& functions) {
  McpList list{server};
  if (!tools.allowed) {
    fields.fail(missing_role(tools.owner, Role::tools));
    return list;
  }
  if (!tools.servers || !tools.servers->has(server)) {
    fields.fail(where, "invalid_value",
                fmt::format("'{}': there is no MCP server '{}' here. Those that are in the file of serve "
                            "--mcp-config can be used, and no others",
                            where, server));
    return list;
  }
  const auto offered = tools.list ? tools.list(server) : tools.servers->tools(server, cancelled);
  if (!offered) {
    list.error = offered.error().message;
    return list;
  }
  for (const mcp::Tool& tool : *offered) {
    if (allowed && (!allowed->is_array() || std::ranges::find(*allowed, Json(tool.name)) == allowed->end()))
      continue;
    tools.toolbox.add(tool);
    list.tools.push_back({{"name", tool.name},
                          {"description", tool.description},
                          {"input_schema", tool.input_schema},
                          {"annotations", tool.annotations}});
  }
  // The toolbox gives unique names, so adding tools may change an earlier name.
  for (Json& function : tools.toolbox.functions())
    if (tools.toolbox.find(string_at(function["function"], "name"))->server == server)
      functions.push_back(std::move(function));
  return list;
}

}  // namespace anabranch::server
