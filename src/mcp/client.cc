#include "mcp/client.h"

#include <algorithm>
#include <set>

#include "mcp/content.h"
#include "mcp/text.h"
#include "mcp/versions.h"

namespace anabranch::mcp {
namespace {

constexpr size_t kMaxNameBytes = 256, kMaxUriBytes = 4096;

// Nesting depth of arrays and objects; stops counting beyond `most`.
int depth_of(const Json& json, int most) {
  if (!json.is_structured() || most < 0) return 0;
  int deepest = 0;
  for (const Json& element : json) deepest = std::max(deepest, depth_of(element, most - 1));
  return deepest + 1;
}

std::string described(const Json& object, const char* key, size_t bytes) {
  const std::string text = printable(string_at(object, key));
  return std::string(beginning(text, bytes));
}

bool is_good_name(const std::string& name, size_t bytes) {
  return !name.empty() && name.size() <= bytes && printable(name) == name && name.find('\n') == name.npos;
}

// Why a tool cannot be offered; empty: it can be.
std::string obstacle(const Tool& tool, const Limits& limits) {
  if (!is_good_name(tool.name, kMaxNameBytes)) return "its name is empty, too long or has control characters";
  if (!tool.input_schema.is_object()) return "its inputSchema is no object";
  if (const auto type = tool.input_schema.find("type"); type != tool.input_schema.end() && *type != "object")
    return "its inputSchema does not describe an object";
  if (depth_of(tool.input_schema, limits.schema_depth) > limits.schema_depth)
    return fmt::format("its inputSchema is nested deeper than {} levels", limits.schema_depth);
  if (const size_t bytes = dump_json(tool.input_schema).size(); bytes > limits.schema_bytes)
    return fmt::format("its inputSchema has {} bytes, more than {}", bytes, limits.schema_bytes);
  return {};
}

// Removes hidden characters from a schema's descriptive texts, as from descriptions. Values with a meaning
// stay unchanged.
void clean_texts(Json& schema, int depth) {
  if (!schema.is_structured() || depth < 0) return;
  for (const char* key : {"description", "title"})
    if (const auto at = schema.find(key); at != schema.end() && at->is_string())
      *at = printable(at->get_ref<const std::string&>());
  for (Json& element : schema) clean_texts(element, depth - 1);
}

Tool read_tool(const std::string& server, const Json& json, const Limits& limits) {
  Tool tool;
  tool.server = server;
  tool.name = string_at(json, "name");
  tool.description = described(json, "description", limits.description_bytes);
  tool.input_schema = json.value("inputSchema", Json());
  if (tool.input_schema.is_object() && !tool.input_schema.contains("type"))
    tool.input_schema["type"] = "object";
  clean_texts(tool.input_schema, limits.schema_depth);
  tool.annotations = Json::object();
  if (const auto hints = json.find("annotations"); hints != json.end() && hints->is_object())
    for (const char* name : {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"})
      if (const auto hint = hints->find(name); hint != hints->end() && hint->is_boolean())
        tool.annotations[name] = *hint;
  tool.title = described(json, "title", kMaxNameBytes);
  if (tool.title.empty() && json.contains("annotations") && json["annotations"].is_object())
    tool.title = described(json["annotations"], "title", kMaxNameBytes);
  return tool;
}

}  // namespace

Result<std::unique_ptr<Client>> Client::open(const ServerConfig& config, const Limits& limits,
                                             const Patience& patience) {
  std::unique_ptr<Client> client(new Client(config, limits));
  TRY(client->connection_, config.http ? connect_http(config, limits) : connect_stdio(config, limits));
  TRY_VOID(client->initialize(patience));
  return client;
}

Result<void> Client::initialize(const Patience& patience) {
  const Json params = {{"protocolVersion", kVersions[0]},
                       {"capabilities", Json::object()},
                       {"clientInfo", {{"name", "anabranch"}, {"version", ANABRANCH_VERSION}}}};
  TRY(const Json result, connection_->request("initialize", params, patience));
  version_ = string_at(result, "protocolVersion");
  if (!is_known_version(version_))
    return make_error(ErrorKind::unsupported,
                      "MCP server '{}' speaks the protocol of '{}'; Anabranch speaks {} to {}", config_.name,
                      one_line(version_, 40), kVersions[std::size(kVersions) - 1], kVersions[0]);
  connection_->set_protocol_version(version_);
  if (const auto capabilities = result.find("capabilities");
      capabilities != result.end() && capabilities->is_object())
    for (const char* name : {"tools", "resources", "prompts"})
      if (capabilities->contains(name)) capabilities_[name] = true;
  if (const auto info = result.find("serverInfo"); info != result.end() && info->is_object()) {
    title_ = described(*info, "title", kMaxNameBytes);
    if (title_.empty()) title_ = described(*info, "name", kMaxNameBytes);
  }
  instructions_ = described(result, "instructions", limits_.description_bytes);
  TRY_VOID(connection_->notify("notifications/initialized", nullptr, patience));
  connection_->listen();
  return {};
}

Error Client::wrong(const std::string& method, const std::string& what) const {
  return make_error(ErrorKind::invalid,
                    "MCP server '{}' answers {} with something else than the protocol says: {}", config_.name,
                    method, what);
}

Result<Listed<Json>> Client::list(const std::string& method, const char* key, const Patience& patience) {
  Listed<Json> out;
  std::set<std::string> cursors;
  std::string cursor;
  do {
    TRY(Json page,
        connection_->request(method, cursor.empty() ? Json() : Json{{"cursor", cursor}}, patience));
    const auto items = page.find(key);
    if (items == page.end() || !items->is_array()) return wrong(method, fmt::format("'{}' is no array", key));
    for (Json& item : *items) {
      if (!item.is_object()) continue;
      if (out.items.size() == limits_.max_tools) {
        out.notes.push_back(
            fmt::format("of the list '{}' only the first {} are used", key, limits_.max_tools));
        return out;
      }
      out.items.push_back(std::move(item));
    }
    cursor = string_at(page, "nextCursor");
    if (cursor.empty()) return out;
  } while (cursor.size() <= kMaxUriBytes && cursors.insert(cursor).second &&
           cursors.size() < limits_.max_pages);
  out.notes.push_back(fmt::format("the list '{}' has pages without end: what follows is left out", key));
  return out;
}

Result<Listed<Tool>> Client::tools(const Patience& patience) {
  Listed<Tool> out;
  if (!offers("tools")) return out;
  TRY(auto listed, list("tools/list", "tools", patience));
  out.notes = std::move(listed.notes);
  std::set<std::string> names;
  for (const Json& json : listed.items) {
    Tool tool = read_tool(config_.name, json, limits_);
    tool.origin = origin_of(config_);
    std::string problem = obstacle(tool, limits_);
    if (problem.empty() && !names.insert(tool.name).second) problem = "another one has the same name";
    if (problem.empty())
      out.items.push_back(std::move(tool));
    else
      out.notes.push_back(fmt::format("the tool '{}' is left out: {}", one_line(tool.name, 80), problem));
  }
  return out;
}

Result<Listed<Resource>> Client::resources(const Patience& patience) {
  Listed<Resource> out;
  if (!offers("resources")) return out;
  TRY(auto listed, list("resources/list", "resources", patience));
  out.notes = std::move(listed.notes);
  for (const Json& json : listed.items) {
    Resource one;
    one.uri = string_at(json, "uri");
    if (!is_good_name(one.uri, kMaxUriBytes)) continue;
    one.name = described(json, "name", kMaxNameBytes);
    one.title = described(json, "title", kMaxNameBytes);
    one.description = described(json, "description", limits_.description_bytes);
    one.mime_type = described(json, "mimeType", kMaxNameBytes);
    out.items.push_back(std::move(one));
  }
  return out;
}

Result<Listed<PromptInfo>> Client::prompts(const Patience& patience) {
  Listed<PromptInfo> out;
  if (!offers("prompts")) return out;
  TRY(auto listed, list("prompts/list", "prompts", patience));
  out.notes = std::move(listed.notes);
  for (const Json& json : listed.items) {
    PromptInfo one;
    one.name = string_at(json, "name");
    if (!is_good_name(one.name, kMaxNameBytes)) continue;
    one.title = described(json, "title", kMaxNameBytes);
    one.description = described(json, "description", limits_.description_bytes);
    const auto arguments = json.find("arguments");
    if (arguments != json.end() && arguments->is_array())
      for (const Json& argument : *arguments) {
        if (!argument.is_object() || one.arguments.size() == limits_.max_tools) continue;
        const auto required = argument.find("required");
        one.arguments.push_back({described(argument, "name", kMaxNameBytes),
                                 described(argument, "description", limits_.description_bytes),
                                 required != argument.end() && *required == true});
      }
    out.items.push_back(std::move(one));
  }
  return out;
}

Result<Output> Client::call(const std::string& tool, const Json& arguments, const Patience& patience) {
  TRY(const Json result,
      connection_->request("tools/call", {{"name", tool}, {"arguments", arguments}}, patience));
  return read_call_result(result, limits_.output_bytes);
}

Result<Output> Client::read_resource(const std::string& uri, const Patience& patience) {
  TRY(const Json result, connection_->request("resources/read", {{"uri", uri}}, patience));
  const auto contents = result.find("contents");
  if (contents == result.end() || !contents->is_array())
    return wrong("resources/read", "'contents' is no array");
  return read_contents(*contents, limits_.output_bytes);
}

Result<Json> Client::get_prompt(const std::string& name, const std::map<std::string, std::string>& arguments,
                                const Patience& patience) {
  Json given = Json::object();
  for (const auto& [key, value] : arguments) given[key] = value;
  TRY(const Json result,
      connection_->request("prompts/get", {{"name", name}, {"arguments", given}}, patience));
  const auto messages = result.find("messages");
  if (messages == result.end() || !messages->is_array())
    return wrong("prompts/get", "'messages' is no array");
  Json out = Json::array();
  size_t bytes = 0;
  for (const Json& message : *messages) {
    const std::string role = string_at(message, "role");
    const auto content = message.is_object() ? message.find("content") : message.end();
    if ((role != "user" && role != "assistant") || content == message.end())
      return wrong("prompts/get", "a message without role or content");
    const Output text =
        read_content(content->is_array() ? *content : Json::array({*content}), limits_.output_bytes);
    bytes += text.text.size();
    if (bytes > limits_.output_bytes)
      return make_error(ErrorKind::exhausted, "MCP server '{}': the prompt '{}' is longer than {} bytes",
                        config_.name, name, limits_.output_bytes);
    out.push_back({{"role", role}, {"content", text.text}});
  }
  return out;
}

}  // namespace anabranch::mcp
