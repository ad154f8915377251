#include "server/api/chat_fields.h"

#include "chat/call_arguments.h"
#include "server/api/chat_tools.h"
#include "server/api/content_parts.h"
#include "server/api/continuation_fields.h"
#include "server/api/format_fields.h"

namespace anabranch::server {
namespace {

// Whether a part is text, also with the names of the Responses API or without a type.
bool is_text(const Json& part, const std::string* type) {
  if (!type) return part.contains("text");
  return *type == "text" || *type == "input_text" || *type == "output_text";
}

// Adds the content to `result` as one string; text parts of an array are joined, and null or no content is an
// empty string. An assistant's refusal counts as text. Images are noted beside the text. Other parts of a
// kept message become placeholders.
void read_content(JsonFields& message, const Json* content, const std::string& where, const std::string& role,
                  bool kept, ImageReader& images, Json& result) {
  result["content"] = content && content->is_string() ? *content : Json("");
  if (!content || content->is_string()) return;
  if ((role == "tool" || kept) && !content->is_array()) {
    result["content"] = dump_json(*content);
    return;
  }
  if (!content->is_array())
    return message.fail(
        "content", "invalid_type",
        fmt::format("'{}content' must be a string or an array of parts, not {}", where, json_type(*content)));
  const bool takes_images =
      (role == "user" && !kept) || ((role == "user" || role == "tool") && images.in_results());
  const auto add_text = [&](const std::string& text) { result["content"].get_ref<std::string&>() += text; };
  for (size_t i = 0; i < content->size(); ++i) {
    const Json& part = (*content)[i];
    const std::string name = fmt::format("content[{}]", i);
    if (part.is_string()) {
      add_text(part.get<std::string>());
      continue;
    }
    if (!part.is_object())
      return message.fail(name, "invalid_type",
                          fmt::format("'{}{}' must be an object, not {}", where, name, json_type(part)));
    JsonFields fields(part, where + name + ".");
    const std::string* type = fields.string("type");
    if (is_text(part, type)) {
      if (!part.contains("text") || !part["text"].is_null()) add_text(fields.required_string("text"));
    } else if (type && role == "assistant" && *type == "refusal") {
      add_text(fields.required_string("refusal"));
    } else if (type && *type == "image_url" && takes_images) {
      images.add_part(fields, where + name, part, result);
    } else if (type && kept) {
      add_text(shown_text(part));
    } else if (!fields.error()) {
      fields.fail("type", type ? "unsupported_value" : "missing_required_parameter",
                  fmt::format("'{}{}': only parts of type {} are supported (no audio or files)", where, name,
                              takes_images ? "\"text\" and \"image_url\"" : "\"text\""));
    }
    if (fields.error()) return message.fail(*fields.error());
  }
}

// Names of roles from other times of the API.
std::string usual_role(const std::string& role) {
  if (role == "developer") return "system";
  return role == "function" ? "tool" : role;
}

Json read_tool_calls(JsonFields& message, const Json& calls, const std::string& where) {
  Json result = Json::array();
  for (size_t i = 0; i < calls.size(); ++i) {
    const std::string name = fmt::format("tool_calls[{}]", i);
    const Json call = as_function_call(calls[i]);
    const Json* function = call.is_object() ? JsonFields(call).find("function") : nullptr;
    const Json* called = function && function->is_object() ? JsonFields(*function).find("name") : nullptr;
    if (!called || !called->is_string()) {
      message.fail(name, "invalid_value",
                   fmt::format("'{}{}' must be {{\"id\", \"type\": \"function\", \"function\": {{\"name\", "
                               "\"arguments\"}}}}",
                               where, name));
      return result;
    }
    const Json* arguments = JsonFields(*function).find("arguments");
    Json copy = Json::object();
    if (call.contains("id")) copy["id"] = call["id"];
    copy["type"] = "function";
    copy["function"] = {{"name", *called}, {"arguments", read_arguments(arguments ? *arguments : Json())}};
    result.push_back(std::move(copy));
  }
  return result;
}

void read_template_options(JsonFields& fields, TemplateOptions& chat) {
  if (const Json* extra = fields.object("chat_template_kwargs")) {
    for (const auto& [key, value] : extra->items()) {
      if (key == "messages" || key == "tools" || key == "bos_token" || key == "eos_token")
        fields.fail("chat_template_kwargs." + key, "invalid_value",
                    fmt::format("'chat_template_kwargs' cannot replace '{}'", key));
      else if (key != "enable_thinking" && key != "add_generation_prompt")
        chat.extra.push_back({key, value});
    }
    JsonFields inner(*extra, "chat_template_kwargs.");
    chat.add_generation_prompt = inner.boolean("add_generation_prompt").value_or(true);
    if (inner.error()) fields.fail(*inner.error());
  }
  if (const auto opening = fields.boolean("add_generation_prompt")) chat.add_generation_prompt = *opening;
}

}  // namespace

Json read_message(JsonFields& request, const Json& message, size_t index, bool kept, ImageReader& images) {
  const std::string where = fmt::format("messages[{}].", index);
  Json result = Json::object();
  if (!message.is_object()) {
    request.fail(fmt::format("messages[{}]", index), "invalid_type",
                 fmt::format("'messages[{}]' must be an object, not {}", index, json_type(message)));
    return result;
  }
  JsonFields fields(message, where);
  const std::string* role = fields.string("role");
  if (!role && !fields.error())
    fields.fail("role", "missing_required_parameter", fmt::format("'{}role' is missing", where));
  if (role) {
    const std::string name = usual_role(*role);
    if (name != "system" && name != "user" && name != "assistant" && name != "tool")
      fields.fail("role", "invalid_value",
                  fmt::format("'{}role' is '{}', but must be system, developer, user, assistant or tool",
                              where, *role));
    result["role"] = name;
  }
  const Json* content = fields.find("content");
  const Json* calls = fields.array("tool_calls");
  if (!kept) fields.only("audio", {}, "only text is built");
  if (!content && !kept && role && *role == "user")
    fields.fail("content", "missing_required_parameter", fmt::format("'{}content' is missing", where));
  images.set_kept(kept);
  read_content(fields, content, where, string_at(result, "role"), kept, images, result);
  const bool assistant = role && *role == "assistant";
  if (const std::string* refusal = assistant ? fields.string("refusal") : nullptr; refusal && !content)
    result["content"] = *refusal;
  const std::string* reasoning = fields.string("reasoning_content");
  if (!reasoning) reasoning = fields.string("reasoning");
  if (reasoning) result["reasoning_content"] = *reasoning;
  for (const char* name : {"name", "tool_call_id"})
    if (const std::string* text = fields.string(name)) result[name] = *text;
  if (calls && !calls->empty()) result["tool_calls"] = read_tool_calls(fields, *calls, where);
  if (const Json* call = fields.object("function_call"); call && !result.contains("tool_calls"))
    result["tool_calls"] = read_tool_calls(fields, Json::array({{{"function", *call}}}), where);
  if (fields.error()) request.fail(*fields.error());
  return result;
}

ApiResult<ChatRequest> finish_chat(JsonFields& fields, ChatRequest request, CustomTools* custom) {
  read_chat_tools(fields, request, custom);
  check_tool_choice(fields, request.tool_choice, request.tools);
  request.parallel_tool_calls = read_parallel_calls(fields);
  read_template_options(fields, request.chat);
  if (fields.error()) return *fields.error();
  request.continuation = read_continuation(fields, request.messages, request.tool_choice);
  if (request.continuation) request.chat.add_generation_prompt = true;
  take_images(fields, "messages", request.messages, request.images);
  if (fields.error()) return *fields.error();
  return request;
}

}  // namespace anabranch::server
