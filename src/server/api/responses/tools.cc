#include "server/api/responses/tools.h"

#include <algorithm>

#include "chat/call_arguments.h"
#include "server/api/chat_tools.h"
#include "server/api/common_fields.h"
#include "server/api/format_fields.h"
#include "server/api/responses/client_tools.h"

namespace anabranch::server {
namespace {

using Kind = ResponseTool::Kind;

// The part in which chat completions have the name of a tool, or of a choice; null: it has none.
const Json* nested_part(const Json& tool) {
  const std::string type = string_at(tool, "type");
  if ((type != "function" && type != "custom") || tool.contains("name")) return nullptr;
  const auto part = tool.find(type);
  return part != tool.end() && part->is_object() ? &*part : nullptr;
}

class ToolReader {
 public:
  ToolReader(JsonFields& request, ResponseTools& out, const mcp::Cancelled& cancelled)
      : request_(request), out_(out), cancelled_(cancelled) {}

  void read(const Json& tools, const std::string& where, const std::string& space) {
    if (out_.functions.size() + tools.size() > kMaxTools)
      request_.fail(where, "invalid_value", fmt::format("'{}' has more than {} entries", where, kMaxTools));
    for (size_t i = 0; i < tools.size() && !request_.error(); ++i)
      read_one(tools[i], fmt::format("{}[{}]", where, i), space);
  }

 private:
  void read_one(const Json& tool, const std::string& where, const std::string& space) {
    if (!tool.is_object())
      return request_.fail(where, "invalid_type",
                           fmt::format("'{}' must be an object, not {}", where, json_type(tool)));
    JsonFields fields(tool, where + ".");
    const std::string type = fields.required_string("type");
    if (const Json* inner = nested_part(tool)) {
      Json flat = *inner;
      flat["type"] = type;
      return read_one(flat, where, space);
    }
    if (type == "function") {
      const Json* parameters = fields.object("parameters");
      add({Kind::function, fields.required_string("name"), space}, tool.value("description", Json()),
          parameters ? *parameters : object_schema(Json::object(), Json::array()),
          fields.boolean("strict").value_or(false));
    } else if (type == "custom") {
      add({Kind::custom, fields.required_string("name"), space}, tool.value("description", Json()),
          custom_parameters(fields.object("format")), false);
    } else if (const ClientTool* client = client_tool(type); client && runs_at_client(fields)) {
      add({Kind::client, type, ""}, description_of(*client, tool), client->parameters(), false);
    } else if (type == "namespace" && space.empty()) {
      const std::string name = fields.required_string("name");
      const Json* inner = fields.array("tools");
      if (inner && !name.empty()) read(*inner, where + ".tools", name);
    } else if (type == "mcp") {
      read_mcp(fields, where);
    } else if (!type.empty()) {
      out_.left_out.push_back(type.substr(0, 64));
    }
    if (fields.error()) request_.fail(*fields.error());
  }

  void read_mcp(JsonFields& fields, const std::string& where) {
    const std::string server = fields.required_string("server_label");
    auto rule =
        mcp::ApprovalRule::read(fields.find("require_approval") ? *fields.find("require_approval") : Json());
    if (!rule) fields.fail("require_approval", "invalid_value", rule.error().message);
    const Json* allowed = fields.find("allowed_tools");
    if (allowed && allowed->is_object())
      allowed = allowed->contains("tool_names") ? &(*allowed)["tool_names"] : nullptr;
    if (out_.agent.rules.contains(server))
      fields.fail("server_label", "invalid_value",
                  fmt::format("'{}' names '{}' a second time", where, server));
    if (fields.error()) return;
    out_.agent.rules.insert_or_assign(server, *rule);
    out_.lists.push_back(add_mcp_tools(fields, where + ".server_label", server, allowed, cancelled_,
                                       out_.agent, out_.functions));
  }

  void add(ResponseTool tool, Json description, Json parameters, bool strict) {
    const std::string name = model_name(tool.space, tool.name);
    if (!out_.known.emplace(name, std::move(tool)).second) return;  // if names repeat, the first one counts
    out_.agent.others.insert(name);
    out_.functions.push_back(function_tool(name, std::move(description), std::move(parameters), strict));
  }

  JsonFields& request_;
  ResponseTools& out_;
  const mcp::Cancelled& cancelled_;
};

// The name that the model sees for {"type", "name", "namespace"?}; "" if there is no such tool.
std::string named_tool(const Json& tool, const ResponseTools& tools) {
  if (!tool.is_object()) return {};
  const std::string type = string_at(tool, "type");
  const Json* inner = nested_part(tool);
  const std::string own = string_at(inner ? *inner : tool, "name");
  const std::string name = client_tool(type) ? type : model_name(string_at(tool, "namespace"), own);
  return tools.known.contains(name) ? name : "";
}

void keep_allowed(JsonFields& fields, const Json& allowed, ResponseTools& tools) {
  std::vector<std::string> names;
  for (const Json& tool : allowed)
    if (const std::string name = named_tool(tool, tools); !name.empty()) names.push_back(name);
  if (names.empty())
    fields.fail("tool_choice", "invalid_value", "'tool_choice.tools' names none of the 'tools'");
  Json kept = Json::array();
  for (Json& tool : tools.functions)
    if (std::ranges::find(names, string_at(tool["function"], "name")) != names.end())
      kept.push_back(std::move(tool));
  tools.functions = std::move(kept);
  mcp::Toolbox offered;
  for (const std::string& name : names)
    if (const mcp::Tool* tool = tools.agent.find(name)) offered.add(*tool);
  tools.agent.toolbox = std::move(offered);
}

// Names by which the model may call tools of MCP servers: their names in the toolbox, and also their own
// names where these are unambiguous.
void name_mcp_tools(ResponseTools& tools) {
  for (const Json& function : tools.functions) {
    const std::string name = string_at(function["function"], "name");
    const mcp::Tool* tool = tools.agent.find(name);
    if (!tool) continue;
    const ResponseTool known{tools.agent.needs_approval(*tool) ? Kind::mcp_ask : Kind::mcp, tool->name,
                             tool->server};
    tools.known.emplace(name, known);
    if (tools.agent.find(tool->name) == tool) tools.known.emplace(tool->name, known);
  }
}

void read_choice(JsonFields& fields, ResponseTools& tools, ToolChoice& choice) {
  const Json* value = fields.find("tool_choice");
  const bool is_object = value && value->is_object();
  const std::string type = is_object ? string_at(*value, "type") : "";
  if (!is_object || type == "auto" || type == "none" || type == "required" || type == "any") {
    choice = read_tool_choice(fields);
    return;
  }
  if (type == "allowed_tools") {
    JsonFields inner(*value, "tool_choice.");
    inner.only("mode", {"auto", "required"}, "it must be auto or required");
    if (string_at(*value, "mode") == "required") choice.kind = ToolChoice::Kind::required;
    if (const Json* allowed = inner.array("tools")) keep_allowed(fields, *allowed, tools);
    if (inner.error()) fields.fail(*inner.error());
    return;
  }
  choice = {ToolChoice::Kind::named, named_tool(*value, tools)};
  if (choice.name.empty())
    fields.fail("tool_choice", "invalid_value",
                "'tool_choice' must be auto, none, required, a tool of 'tools' that can be offered here, or "
                "allowed_tools");
}

}  // namespace

std::string model_name(const std::string& space, const std::string& name) {
  if (space.empty()) return name;
  return space + (space.ends_with("__") ? "" : "__") + name;
}

ResponseTools read_response_tools(JsonFields& fields, ToolChoice& choice, AgentTools agent,
                                  const mcp::Cancelled& cancelled) {
  ResponseTools tools;
  tools.agent = std::move(agent);
  if (const Json* list = fields.array("tools")) ToolReader(fields, tools, cancelled).read(*list, "tools", "");
  const Json* given = fields.find("tool_choice");
  const std::string word = !given               ? "auto"
                           : given->is_string() ? given->get<std::string>()
                                                : string_at(*given, "type");
  const bool must_call = word != "auto" && word != "none";
  for (const McpList& list : tools.lists)
    if (must_call && tools.functions.empty() && !list.error.empty())
      fields.fail("tools", "mcp_server_failed", list.error);
  tools.agent.note_changes();
  name_mcp_tools(tools);
  if (!fields.error()) read_choice(fields, tools, choice);
  if (!fields.error()) check_tool_choice(fields, choice, tools.functions);
  return tools;
}

Json call_item(const ResponseTools& tools, const std::string& model_name, const std::string& call_id,
               const std::string& arguments) {
  const auto at = tools.known.find(model_name);
  const ResponseTool tool = at != tools.known.end() ? at->second
                            : tools.agent.is_unknown(model_name)
                                ? ResponseTool{Kind::mcp, model_name, tools.agent.toolbox.first().server}
                                : ResponseTool{Kind::function, model_name, ""};
  if (tool.kind == Kind::custom) {
    return {{"type", "custom_tool_call"},
            {"call_id", call_id},
            {"name", tool.name},
            {"input", custom_input(arguments)}};
  }
  if (tool.kind == Kind::client) {
    const ClientTool& client = *client_tool(tool.name);
    const auto parsed = parse_json(arguments);
    Json item = {{"type", client.call_type()}, {"call_id", call_id}};
    item.update(client.call(parsed && parsed->is_object() ? *parsed : Json::object()));
    return item;
  }
  if (tool.kind == Kind::mcp || tool.kind == Kind::mcp_ask) {
    const bool asks = tool.kind == Kind::mcp_ask;
    Json item = {{"type", asks ? "mcp_approval_request" : "mcp_call"},
                 {"id", call_id_with(asks ? "mcpr_" : "mcp_", call_id)},
                 {"server_label", tool.space},
                 {"name", tool.name},
                 {"arguments", arguments}};
    if (!asks) item.update({{"output", nullptr}, {"error", nullptr}, {"approval_request_id", nullptr}});
    return item;
  }
  Json item = {
      {"type", "function_call"}, {"call_id", call_id}, {"name", tool.name}, {"arguments", arguments}};
  if (!tool.space.empty()) item["namespace"] = tool.space;
  return item;
}

Json call_of(const Json& item) {
  const std::string type = string_at(item, "type");
  std::string name = model_name(string_at(item, "namespace"), string_at(item, "name"));
  Json arguments;
  const bool mcp = type == "mcp_call" || type == "mcp_approval_request";
  if (mcp) name = mcp_function(string_at(item, "server_label"), string_at(item, "name"));
  if (type == "function_call" || mcp) {
    arguments = read_arguments(item.value("arguments", Json()));
  } else if (type == "custom_tool_call") {
    arguments = {{"input", string_at(item, "input")}};
  } else if (const ClientTool* client = client_tool_of_call(type)) {
    name = client->type;
    arguments = client->arguments(item);
  } else {
    return nullptr;
  }
  std::string id = string_at(item, "call_id");
  if (id.empty()) id = string_at(item, "id");
  // An approved call has the id of the request for its approval.
  if (const std::string asked = string_at(item, "approval_request_id"); mcp && !asked.empty()) id = asked;
  if (mcp) id = call_id_with("call_", id);
  return {
      {"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", std::move(arguments)}}}};
}

}  // namespace anabranch::server
