#include "server/api/anthropic_request.h"

#include <climits>
#include <functional>

#include "server/api/anthropic_tools.h"
#include "server/api/content_parts.h"
#include "server/api/continuation_fields.h"
#include "server/api/format_fields.h"
#include "server/api/responses_tools.h"
#include "server/api/thinking_fields.h"

namespace anabranch::server {
namespace {

void refuse_what_is_not_built(JsonFields& fields) {
  fields.only("container", {}, "containers are not built");
}

// Reads a content block of this type. Returns false if the type is not allowed here.
using TakeBlock = std::function<bool(const std::string& type, JsonFields& fields, const Json& block)>;

void read_block(JsonFields& owner, const Json& block, const std::string& where, const TakeBlock& take) {
  if (!block.is_object())
    return owner.fail(ApiError{400, fmt::format("'{}' must be an object, not {}", where, json_type(block)),
                               where, "invalid_type"});
  JsonFields fields(block, where + ".");
  const std::string type = fields.required_string("type");
  if (!fields.error() && !take(type, fields, block))
    fields.fail("type", "unsupported_value",
                fmt::format("'{}': blocks of type \"{}\" are not taken here; only text, tool calls and their "
                            "results are built (no images or files)",
                            where, type));
  if (fields.error()) owner.fail(*fields.error());
}

// Reads content; a string is one text block. name: the field's path, for messages.
void read_blocks(JsonFields& owner, const Json& content, const std::string& name, const TakeBlock& take) {
  if (content.is_string()) return read_block(owner, {{"type", "text"}, {"text", content}}, name, take);
  if (!content.is_array())
    return owner.fail(ApiError{
        400, fmt::format("'{}' must be a string or an array of blocks, not {}", name, json_type(content)),
        name, "invalid_type"});
  for (size_t i = 0; i < content.size() && !owner.error(); ++i)
    read_block(owner, content[i], fmt::format("{}[{}]", name, i), take);
}

// The text of content that may only contain text.
std::string read_text(JsonFields& owner, const Json& content, const std::string& name) {
  std::string text;
  read_blocks(owner, content, name, [&](const std::string& type, JsonFields& block, const Json&) {
    if (type == "text") add_line(text, block.required_string("text"));
    return type == "text";
  });
  return text;
}

// The text of a tool's result. Blocks that are not text become placeholders.
std::string read_result(JsonFields& owner, const Json& content, const std::string& name) {
  std::string text;
  read_blocks(owner, content, name, [&](const std::string& type, JsonFields& fields, const Json& block) {
    add_line(text, type == "text" ? fields.required_string("text") : shown_text(block));
    return true;
  });
  return text;
}

// Splits a user turn into chat messages: one per tool result, and one for the text. Consecutive user turns
// are joined.
void read_user(JsonFields& fields, const Json& content, const std::string& name, Json& messages) {
  read_blocks(fields, content, name, [&](const std::string& type, JsonFields& block, const Json& json) {
    if (type == "tool_result") {
      Json message = {{"role", "tool"}, {"content", ""}};
      message["tool_call_id"] = block.required_string("tool_use_id");
      if (const Json* result = block.find("content"))
        message["content"] = read_result(block, *result, name + ".tool_result.content");
      messages.push_back(std::move(message));
      return true;
    }
    const auto readable = readable_text(json);
    if (type != "text" && !readable) return false;
    if (messages.empty() || messages.back()["role"] != "user")
      messages.push_back({{"role", "user"}, {"content", ""}});
    add_line(messages.back()["content"].get_ref<std::string&>(),
             readable ? *readable : block.required_string("text"));
    return true;
  });
}

Json read_tool_use(JsonFields& block) {
  Json call = {{"id", block.required_string("id")}, {"type", "function"}};
  const std::string name = block.required_string("name");
  const Json* input = block.object("input");
  call["function"] = {{"name", name}, {"arguments", input ? *input : Json::object()}};
  return call;
}

// Blocks of tools that Anthropic's servers ran: calls and their results.
bool is_of_servers(const std::string& type) {
  return type == "server_tool_use" || type.ends_with("_tool_result");
}

// A turn of the assistant's. With calls that this server ran and their results it becomes several messages.
class AssistantReader {
 public:
  explicit AssistantReader(Json& messages) : messages_(messages) {}

  void read(JsonFields& fields, const Json& content, const std::string& name) {
    read_blocks(fields, content, name, [&](const std::string& type, JsonFields& block, const Json&) {
      if (type == "text")
        text_ += block.required_string("text");  // as it was written, with calls in between
      else if (type == "thinking")
        reasoning_ += block.required_string("thinking");
      else if (type == "tool_use")
        calls_.push_back(read_tool_use(block));
      else if (type == "mcp_tool_use")
        read_mcp_use(block);
      else if (type == "mcp_tool_result")
        read_mcp_result(block, name);
      else
        return type == "redacted_thinking" || is_of_servers(type);
      return true;
    });
    if (!results_ || !text_.empty() || !reasoning_.empty() || !calls_.empty()) flush();
  }

 private:
  void read_mcp_use(JsonFields& block) {
    Json call = read_tool_use(block);
    call["id"] = call_id_with("call_", string_at(call, "id"));
    call["function"]["name"] =
        mcp_function(block.required_string("server_name"), block.required_string("name"));
    calls_.push_back(std::move(call));
  }

  void read_mcp_result(JsonFields& block, const std::string& name) {
    if (!calls_.empty()) flush();
    const Json* result = block.find("content");
    const std::string text = result ? read_result(block, *result, name + ".mcp_tool_result.content") : "";
    messages_.push_back({{"role", "tool"},
                         {"content", mcp::text_for_model(block.boolean("is_error").value_or(false), text)},
                         {"tool_call_id", call_id_with("call_", block.required_string("tool_use_id"))}});
    results_ = true;
  }

  void flush() {
    Json message = {{"role", "assistant"}, {"content", std::exchange(text_, {})}};
    if (!reasoning_.empty()) message["reasoning_content"] = std::exchange(reasoning_, {});
    if (!calls_.empty()) message["tool_calls"] = std::exchange(calls_, Json::array());
    messages_.push_back(std::move(message));
  }

  Json& messages_;
  std::string text_, reasoning_;
  Json calls_ = Json::array();
  bool results_ = false;
};

void read_message(JsonFields& request, const Json& message, size_t index, Json& messages) {
  const std::string where = fmt::format("messages[{}]", index);
  if (!message.is_object())
    return request.fail(where, "invalid_type",
                        fmt::format("'{}' must be an object, not {}", where, json_type(message)));
  JsonFields fields(message, where + ".");
  const std::string role = fields.required_string("role");
  const Json* content = fields.find("content");
  const std::string name = where + ".content";
  if (!content || (content->is_array() && content->empty()))
    fields.fail("content", "missing_required_parameter", fmt::format("'{}' is missing or empty", name));
  else if (role == "user")
    read_user(fields, *content, name, messages);
  else if (role == "assistant")
    AssistantReader(messages).read(fields, *content, name);
  else if (role == "system")
    messages.push_back({{"role", "system"}, {"content", read_text(fields, *content, name)}});
  else
    fields.fail("role", "invalid_value",
                fmt::format("'{}.role' is '{}', but must be user, assistant or system", where, role));
  if (fields.error()) request.fail(*fields.error());
}

void read_messages(JsonFields& fields, Json& messages) {
  if (const Json* system = fields.find("system")) {
    std::string text = read_text(fields, *system, "system");
    if (!text.empty()) messages.push_back({{"role", "system"}, {"content", std::move(text)}});
  }
  const Json* list = fields.array("messages");
  if (!list || list->empty() || list->size() > kMaxMessages)
    return fields.fail("messages", list ? "invalid_value" : "missing_required_parameter",
                       fmt::format("'messages' must be an array of 1 to {} messages", kMaxMessages));
  for (size_t i = 0; i < list->size() && !fields.error(); ++i) read_message(fields, (*list)[i], i, messages);
}

// The names in {"configs": {NAME: {"enabled"}}, "default_config": {"enabled"}} of a toolset that are on;
// null: all that the server has.
Json names_in_toolset(const Json& toolset, const std::vector<std::string>& offered) {
  const auto enabled = [](const Json& config, bool otherwise) {
    const auto value = config.is_object() ? config.find("enabled") : config.end();
    return value != config.end() && value->is_boolean() ? value->get<bool>() : otherwise;
  };
  const bool usual = enabled(toolset.value("default_config", Json::object()), true);
  const Json configs = toolset.value("configs", Json::object());
  Json names = Json::array();
  for (const std::string& name : offered) {
    const auto config = configs.is_object() ? configs.find(name) : configs.end();
    if (config == configs.end() ? usual : enabled(*config, usual)) names.push_back(name);
  }
  return names;
}

// Which tools of a server are wanted: by the toolset for it in "tools", or by its own "tool_configuration",
// as in an older version of the API. Null: none.
std::optional<Json> wanted_tools(const Json& server, const Json* tools,
                                 const std::vector<std::string>& offered) {
  bool toolsets = false;
  for (size_t i = 0; tools && i < tools->size(); ++i) {
    const Json& tool = (*tools)[i];
    if (!tool.is_object() || string_at(tool, "type") != "mcp_toolset") continue;
    toolsets = true;
    if (string_at(tool, "mcp_server_name") == string_at(server, "name"))
      return names_in_toolset(tool, offered);
  }
  if (toolsets) return std::nullopt;
  const Json config = server.value("tool_configuration", Json::object());
  if (!config.is_object()) return Json(offered);
  if (const auto on = config.find("enabled"); on != config.end() && *on == false) return std::nullopt;
  const auto allowed = config.find("allowed_tools");
  return allowed != config.end() && allowed->is_array() ? *allowed : Json(offered);
}

// Adds the tools of "mcp_servers" to the functions. Servers are known by the names that this server's
// operator gave them; their addresses and tokens are the operator's.
void read_mcp_servers(JsonFields& fields, const Json* tools, AgentTools* agent,
                      const mcp::Cancelled& cancelled, Json& functions) {
  const Json* servers = fields.array("mcp_servers");
  for (size_t i = 0; servers && i < servers->size() && !fields.error(); ++i) {
    const std::string where = fmt::format("mcp_servers[{}]", i);
    const Json& server = (*servers)[i];
    if (!server.is_object()) {
      fields.fail(where, "invalid_type", fmt::format("'{}' must be an object", where));
      return;
    }
    AgentTools none;
    AgentTools& taken = agent ? *agent : none;
    const std::string name = string_at(server, "name");
    if (JsonFields(server).find("authorization_token"))
      fields.fail(where + ".authorization_token", "unsupported_value",
                  fmt::format("'{}': tokens belong into the file of serve --mcp-config", where));
    Json all = Json::array();
    AgentTools listed{taken.servers};
    const McpList list = add_mcp_tools(fields, where + ".name", name, nullptr, cancelled, listed, all);
    if (!list.error.empty()) fields.fail(where, "mcp_server_failed", list.error);
    std::vector<std::string> offered;
    for (const Json& tool : list.tools) offered.push_back(string_at(tool, "name"));
    if (fields.error()) return;
    if (const auto wanted = wanted_tools(server, tools, offered))
      add_mcp_tools(fields, where + ".name", name, &*wanted, cancelled, taken, functions);
  }
}

// With tool_choice "none" the prompt must not contain the tools.
void read_tools(JsonFields& fields, ChatRequest& request, AgentTools* agent,
                const mcp::Cancelled& cancelled) {
  std::string choice = "auto";
  if (const Json* object = fields.object("tool_choice")) {
    JsonFields inner(*object, "tool_choice.");
    choice = inner.required_string("type");
    inner.only("type", {"auto", "none", "any", "tool"}, "it must be auto, none, any or tool");
    if (choice == "tool") {
      request.tool_choice = {ToolChoice::Kind::named, inner.required_string("name")};
    } else if (choice == "any") {
      request.tool_choice.kind = ToolChoice::Kind::required;
    }
    request.parallel_tool_calls = !inner.boolean("disable_parallel_tool_use").value_or(false);
    if (inner.error()) fields.fail(*inner.error());
  }
  const Json* list = fields.array("tools");
  if (list && list->size() > kMaxTools)
    fields.fail("tools", "invalid_value", fmt::format("'tools' has more than {} entries", kMaxTools));
  Json tools = list ? read_anthropic_tools(fields, *list, request.left_out_tools) : Json::array();
  if (agent)
    for (const Json& tool : tools) agent->others.insert(string_at(tool["function"], "name"));
  if (!fields.error()) read_mcp_servers(fields, list, agent, cancelled, tools);
  if (choice != "none" && !tools.empty()) request.tools = std::move(tools);
}

}  // namespace

std::variant<ChatRequest, ApiError> parse_messages_request(std::string_view body,
                                                           const RequestDefaults& defaults, bool counting,
                                                           AgentTools* tools,
                                                           const mcp::Cancelled& cancelled) {
  auto json = parse_body(body);
  if (auto* error = std::get_if<ApiError>(&json)) return std::move(*error);
  JsonFields fields(std::get<Json>(json));
  ChatRequest request;
  // Clients of this API expect thoughts only if they asked for them; otherwise content[0] must be the text.
  RequestDefaults ours = defaults;
  if (ours.thinking.mode.value_or(ThinkMode::automatic) == ThinkMode::automatic) {
    ours.thinking.mode = ThinkMode::off;
    ours.thinking.said_by = "the request does not ask for it";
  }
  request.options = read_common_options(fields, ours);
  refuse_what_is_not_built(fields);
  const auto max_tokens = fields.integer("max_tokens", 1, INT_MAX);
  if (max_tokens)
    request.options.max_tokens = static_cast<int>(*max_tokens);
  else if (!counting)
    fields.fail("max_tokens", "missing_required_parameter", "'max_tokens' is missing");
  request.options.format = read_response_format(fields);
  read_stop(fields, "stop_sequences", request.options.stop);
  read_messages(fields, request.messages);
  read_tools(fields, request, tools, cancelled);
  check_tool_choice(fields, request.tool_choice, request.tools);
  if (fields.error()) return *fields.error();
  request.continuation = read_prefill(fields, request.messages, request.tool_choice);
  if (fields.error()) return *fields.error();
  return request;
}

}  // namespace anabranch::server
