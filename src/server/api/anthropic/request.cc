#include "server/api/anthropic/request.h"

#include <climits>
#include <functional>

#include "chat/call_arguments.h"
#include "server/api/anthropic/cache_marks.h"
#include "server/api/anthropic/tools.h"
#include "server/api/chat_fields.h"
#include "server/api/content_parts.h"
#include "server/api/continuation_fields.h"
#include "server/api/format_fields.h"
#include "server/api/mcp_offer.h"
#include "server/api/sampler_fields.h"
#include "server/api/thinking_fields.h"

namespace anabranch::server {
namespace {

const Json kNoContent = "";

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
    fields.fail(
        "type", "unsupported_value",
        fmt::format("'{}': blocks of type \"{}\" are not taken here; only text, images of users, tool "
                    "calls and their results are built (no files)",
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

// The text of content that may only contain text. index: the message's.
std::string read_text(JsonFields& owner, const Json& content, const std::string& name, size_t index,
                      CacheMarks& marks) {
  std::string text;
  read_blocks(owner, content, name, [&](const std::string& type, JsonFields& block, const Json&) {
    if (type == "text") add_line(text, block.required_string("text"));
    marks.read(block, {CacheMark::In::message, index, text.size()});
    return type == "text";
  });
  return text;
}

// {"type": "image", "source": {"type": "base64", "media_type", "data"} or {"type": "url", "url"}}
void read_image(JsonFields& block, const std::string& where, ImageReader& images, Json& message) {
  const Json* source = block.object("source");
  if (!source)
    return block.fail("source", "missing_required_parameter", fmt::format("'{}.source' is missing", where));
  JsonFields fields(*source, where + ".source.");
  const std::string type = fields.required_string("type");
  if (type == "base64") {
    const std::string media_type = fields.required_string("media_type");
    if (const std::string* data = fields.string("data"))
      images.add_base64(fields, where, media_type, *data, message);
    else
      fields.required_string("data");
  } else if (type == "url") {
    images.add(fields, where, fields.required_string("url"), nullptr, message);
  } else {
    fields.fail("type", "unsupported_value",
                fmt::format("'{}.source.type' is '{}', but must be base64 or url (files are not kept here)",
                            where, type));
  }
  if (fields.error()) block.fail(*fields.error());
}

// The end of the message so far.
CacheMark mark_in(const Json& message, size_t index) {
  return {CacheMark::In::message, index, string_at(message, "content").size()};
}

// Whether the image of the block can be read: those of Anthropic's file store and of other stores cannot.
bool is_readable_image(const Json& block) {
  const auto source = block.find("source");
  const std::string type = source != block.end() && source->is_object() ? string_at(*source, "type") : "";
  return type == "base64" || type == "url";
}

// Adds a tool's result to its message. Blocks that are not text become placeholders; images only do if the
// model reads none. place: the message's index.
void read_result(JsonFields& owner, const Json& content, const std::string& name, size_t place,
                 ImageReader& images, CacheMarks& marks, Json& message) {
  size_t index = 0;
  read_blocks(owner, content, name, [&](const std::string& type, JsonFields& fields, const Json& block) {
    const std::string where = fmt::format("{}[{}]", name, index++);
    if (type == "image" && images.in_results() && is_readable_image(block))
      read_image(fields, where, images, message);
    else
      add_line_to(message, type == "text" ? fields.required_string("text") : shown_text(block));
    marks.read(fields, mark_in(message, place));
    return true;
  });
}

// Splits a user turn into chat messages: one per tool result, and one for the text and the images.
// Consecutive user turns are joined. kept: see kept_messages().
void read_user(JsonFields& fields, const Json& content, const std::string& name, bool kept,
               ImageReader& images, CacheMarks& marks, Json& messages) {
  images.set_kept(kept);
  size_t index = 0;
  read_blocks(fields, content, name, [&](const std::string& type, JsonFields& block, const Json& json) {
    const std::string where = fmt::format("{}[{}]", name, index++);
    if (type == "tool_result") {
      images.set_kept(true);
      Json message = {{"role", "tool"}, {"content", ""}};
      message["tool_call_id"] = block.required_string("tool_use_id");
      if (const Json* result = block.find("content"))
        read_result(block, *result, where + ".content", messages.size(), images, marks, message);
      marks.read(block, {CacheMark::In::message, messages.size()});
      messages.push_back(std::move(message));
      return true;
    }
    const auto readable = readable_text(json);
    const bool shown = !kept || (images.in_results() && is_readable_image(json));
    const bool image = type == "image" && shown;
    if (type != "text" && !image && !readable && !kept) return false;
    if (messages.empty() || messages.back()["role"] != "user")
      messages.push_back({{"role", "user"}, {"content", ""}});
    if (image)
      read_image(block, where, images, messages.back());
    else
      add_line_to(messages.back(), type == "text" ? block.required_string("text") : shown_text(json));
    marks.read(block, mark_in(messages.back(), messages.size() - 1));
    return true;
  });
}

Json read_tool_use(JsonFields& block) {
  Json call = {{"id", block.required_string("id")}, {"type", "function"}};
  const std::string name = block.required_string("name");
  const Json* input = block.find("input");
  call["function"] = {{"name", name}, {"arguments", read_arguments(input ? *input : Json())}};
  return call;
}

// A turn of the assistant, or the next part of one: consecutive ones are one turn. It becomes several
// messages if it has calls that this server ran, with their results. Blocks of other types (calls of tools
// that Anthropic's servers ran, with their results, encrypted thoughts, compacted conversations, ...) are
// left out: they came from another server and say nothing here.
class AssistantReader {
 public:
  AssistantReader(Json& messages, CacheMarks& marks) : messages_(messages), marks_(marks) {
    if (!messages.empty() && messages.back()["role"] == "assistant") take_back();
  }

  void read(JsonFields& fields, const Json& content, const std::string& name) {
    read_blocks(fields, content, name, [&](const std::string& type, JsonFields& block, const Json&) {
      if (type == "text")
        text_ += block.required_string("text");  // as the model wrote it, with calls in between
      else if (type == "thinking")
        reasoning_ += block.required_string("thinking");
      else if (type == "tool_use")
        calls_.push_back(read_tool_use(block));
      else if (type == "mcp_tool_use")
        read_mcp_use(block);
      else if (type == "mcp_tool_result")
        read_mcp_result(block, name);
      // Calls stand behind the message's text.
      marks_.read(block,
                  {CacheMark::In::message, messages_.size(), calls_.empty() ? text_.size() : SIZE_MAX});
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
    const ImageFetch no_fetch;
    ImageReader no_images(no_fetch, false);  // results of tools that this server ran hold text only
    Json message = {{"role", "tool"}, {"content", ""}};
    if (result)
      read_result(block, *result, name + ".mcp_tool_result.content", messages_.size(), no_images, marks_,
                  message);
    message["content"] =
        mcp::text_for_model(block.boolean("is_error").value_or(false), string_at(message, "content"));
    message["tool_call_id"] = call_id_with("call_", block.required_string("tool_use_id"));
    messages_.push_back(std::move(message));
    results_ = true;
  }

  // Takes the previous message back into the turn.
  void take_back() {
    Json last = std::move(messages_.back());
    messages_.erase(messages_.size() - 1);
    // Moved, because a history may have thousands of turns that follow each other.
    for (auto [name, text] : {std::pair("content", &text_), std::pair("reasoning_content", &reasoning_)})
      if (const auto it = last.find(name); it != last.end() && it->is_string())
        *text = std::move(it->get_ref<std::string&>());
    if (last.contains("tool_calls")) calls_ = std::move(last["tool_calls"]);
  }

  void flush() {
    Json message = {{"role", "assistant"}, {"content", std::exchange(text_, {})}};
    if (!reasoning_.empty()) message["reasoning_content"] = std::exchange(reasoning_, {});
    if (!calls_.empty()) message["tool_calls"] = std::exchange(calls_, Json::array());
    messages_.push_back(std::move(message));
  }

  Json& messages_;
  CacheMarks& marks_;
  std::string text_, reasoning_;
  Json calls_ = Json::array();
  bool results_ = false;
};

// last: the message is the request's last one. kept: see kept_messages().
void read_message(JsonFields& request, const Json& message, size_t index, bool last, bool kept,
                  ImageReader& images, CacheMarks& marks, Json& messages) {
  const std::string where = fmt::format("messages[{}]", index);
  if (!message.is_object())
    return request.fail(where, "invalid_type",
                        fmt::format("'{}' must be an object, not {}", where, json_type(message)));
  JsonFields fields(message, where + ".");
  const std::string role = fields.required_string("role");
  const Json* given = fields.find("content");
  const std::string name = where + ".content";
  const bool empty = !given || (given->is_array() && given->empty());
  const Json& content = empty ? kNoContent : *given;
  if (role == "assistant")
    AssistantReader(messages, marks).read(fields, content, name);
  else if (empty && last)
    fields.fail("content", "missing_required_parameter", fmt::format("'{}' is missing or empty", name));
  else if (role == "user")
    read_user(fields, content, name, kept, images, marks, messages);
  else if (role == "system" || role == "developer")
    messages.push_back(
        {{"role", "system"}, {"content", read_text(fields, content, name, messages.size(), marks)}});
  else
    fields.fail("role", "invalid_value",
                fmt::format("'{}.role' is '{}', but must be user, assistant or system", where, role));
  if (fields.error()) request.fail(*fields.error());
}

void read_messages(JsonFields& fields, ImageReader& images, CacheMarks& marks, Json& messages) {
  if (const Json* system = fields.find("system")) {
    std::string text = read_text(fields, *system, "system", 0, marks);
    if (!text.empty()) messages.push_back({{"role", "system"}, {"content", std::move(text)}});
  }
  const Json* list = fields.array("messages");
  if (!list || list->empty() || list->size() > kMaxMessages)
    return fields.fail("messages", list ? "invalid_value" : "missing_required_parameter",
                       fmt::format("'messages' {}must be an array of 1 to {} messages",
                                   list ? "" : "is missing: it ", kMaxMessages));
  const std::vector<bool> kept = kept_messages(*list);
  for (size_t i = 0; i < list->size() && !fields.error(); ++i) {
    read_message(fields, (*list)[i], i, i + 1 == list->size(), kept[i], images, marks, messages);
    if (messages.size() > kMaxMessages)  // each result is one
      return fields.fail("messages", "invalid_value",
                         fmt::format("'messages' stand for more than {} messages", kMaxMessages));
  }
}

// The names in {"configs": {NAME: {"enabled"}}, "default_config": {"enabled"}} of a toolset that are enabled;
// null: all tools of the server.
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

// The tools that the request wants of a server: from the server's toolset in "tools", or from its own
// "tool_configuration" as in an older version of the API. Nothing: no tools are wanted.
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

// Adds the tools of "mcp_servers" to the functions. Servers are found by the names that this server's
// operator gave them; their addresses and tokens come from the operator, not from the request.
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
    listed.allowed = taken.allowed;
    listed.owner = taken.owner;
    listed.list = taken.list;
    const McpList list = add_mcp_tools(fields, where + ".name", name, nullptr, cancelled, listed, all);
    if (!list.error.empty()) fields.fail(where, "mcp_server_failed", list.error);
    std::vector<std::string> offered;
    for (const Json& tool : list.tools) offered.push_back(string_at(tool, "name"));
    if (fields.error()) return;
    if (const auto wanted = wanted_tools(server, tools, offered))
      add_mcp_tools(fields, where + ".name", name, &*wanted, cancelled, taken, functions);
  }
}

// Reads "tools", "mcp_servers" and "tool_choice".
void read_tools(JsonFields& fields, ChatRequest& request, AgentTools* agent, CacheMarks& marks,
                const mcp::Cancelled& cancelled) {
  if (const Json* object = fields.object("tool_choice")) {
    JsonFields inner(*object, "tool_choice.");
    const std::string choice = inner.required_string("type");
    inner.only("type", {"auto", "none", "any", "tool"}, "it must be auto, none, any or tool");
    if (choice == "none") request.tool_choice.kind = ToolChoice::Kind::none;
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
  Json tools = list ? read_anthropic_tools(fields, *list, request.left_out_tools, marks) : Json::array();
  if (agent)
    for (const Json& tool : tools) agent->others.insert(string_at(tool["function"], "name"));
  if (!fields.error()) read_mcp_servers(fields, list, agent, cancelled, tools);
  marks.end_toolsets(tools);
  if (!tools.empty()) request.tools = std::move(tools);
}

}  // namespace

ApiResult<ChatRequest> parse_messages_request(std::string_view body, const RequestDefaults& defaults,
                                              bool counting, AgentTools* tools,
                                              const mcp::Cancelled& cancelled) {
  TRY(auto json, parse_body(body));
  JsonFields fields(json);
  ChatRequest request;
  // Clients of this API expect thinking only if they asked for it; otherwise content[0] must be the text.
  RequestDefaults ours = defaults;
  if (ours.thinking.mode.value_or(ThinkMode::automatic) == ThinkMode::automatic) {
    ours.thinking.mode = ThinkMode::off;
    ours.thinking.said_by = "the request does not ask for it";
  }
  request.options = read_common_options(fields, fields, ours);
  refuse_what_is_not_built(fields);
  const auto max_tokens = fields.integer("max_tokens", 0, INT_MAX);  // 0 caches the prompt
  if (max_tokens)
    request.options.max_tokens = static_cast<int>(*max_tokens);
  else if (!counting)
    fields.fail("max_tokens", "missing_required_parameter", "'max_tokens' is missing");
  check_min_tokens(fields, request.options);
  request.options.format = read_response_format(fields);
  read_stop(fields, "stop_sequences", request.options.stop);
  ImageReader images(defaults.fetch_image, defaults.images);
  CacheMarks marks;
  read_messages(fields, images, marks, request.messages);
  read_tools(fields, request, tools, marks, cancelled);
  request.marks = marks.finish(fields, request.messages);
  if (!request.options.cache) request.marks.clear();
  check_tool_choice(fields, request.tool_choice, request.tools);
  if (fields.error()) return *fields.error();
  request.continuation = read_prefill(fields, request.messages, request.tool_choice);
  take_images(fields, "messages", request.messages, request.images);
  if (fields.error()) return *fields.error();
  return request;
}

}  // namespace anabranch::server
