#include "server/api/chat_tools.h"

#include "chat/call_arguments.h"
#include "output/partial_object.h"
#include "server/api/common_fields.h"
#include "server/api/format_fields.h"

namespace anabranch::server {
namespace {

// The member of a tool or call that its type names: {"type": "function", "function": {...}}. Null: there is
// none.
const Json* named_part(const Json& tool) {
  if (!tool.is_object()) return nullptr;
  const std::string type = tool.contains("type") ? string_at(tool, "type") : "function";
  if (type != "function" && type != "custom") return nullptr;
  const auto part = tool.find(type);
  if (part == tool.end() || !part->is_object()) return nullptr;
  const Json* name = JsonFields(*part).find("name");
  return name && name->is_string() ? &*part : nullptr;
}

// A tool as other APIs write it, with its name beside its type (Responses) or without one (Anthropic), as
// some programs send it here, too; any other value as it is.
Json usual_tool(const Json& tool) {
  if (!tool.is_object() || string_at(tool, "name").empty()) return tool;
  const std::string type = tool.contains("type") ? string_at(tool, "type") : "function";
  const bool schema = tool.contains("input_schema");
  if ((type != "function" && type != "custom") || tool.contains(type)) return tool;
  Json part = tool;
  part.erase("type");
  part.erase("cache_control");
  if (part.value("description", Json("")).is_null()) part.erase("description");
  if (type == "custom" && !schema) return {{"type", type}, {type, std::move(part)}};
  if (schema) {
    part["parameters"] = std::move(part["input_schema"]);
    part.erase("input_schema");
  }
  return {{"type", "function"}, {"function", std::move(part)}};
}

bool is_custom(const Json& tool) {
  return tool.is_object() && string_at(tool, "type") == "custom";
}

Json function_of(const Json& tool) {
  if (!is_custom(tool)) return tool;
  const Json& custom = tool["custom"];
  return custom_function(string_at(custom, "name"), custom.value("description", Json()),
                         JsonFields(custom).find("format"));
}

// Keeps the tools that {"mode", "tools": [{"type": "function", "function": {"name"}}]} names.
void keep_allowed(JsonFields& fields, const Json& allowed, ChatRequest& request) {
  const auto mode = allowed.find("mode");
  if (mode != allowed.end() && *mode != "auto" && *mode != "required")
    fields.fail("tool_choice.allowed_tools.mode", "invalid_value",
                "'tool_choice.allowed_tools.mode' must be auto or required");
  if (mode != allowed.end() && *mode == "required") request.tool_choice.kind = ToolChoice::Kind::required;
  std::set<std::string> names;
  const auto list = allowed.find("tools");
  for (size_t i = 0; list != allowed.end() && i < list->size() && list->is_array(); ++i) {
    const Json* part = named_part((*list)[i]);
    names.insert(string_at(part ? *part : (*list)[i], "name"));
  }
  Json kept = Json::array();
  for (const Json& tool : request.tools.is_array() ? request.tools : Json::array())
    if (names.contains(string_at(tool["function"], "name"))) kept.push_back(tool);
  if (kept.empty())
    fields.fail("tool_choice", "invalid_value", "'tool_choice.allowed_tools' names none of the 'tools'");
  request.tools = std::move(kept);
}

}  // namespace

Json object_schema(Json properties, Json required) {
  return {{"type", "object"}, {"properties", std::move(properties)}, {"required", std::move(required)}};
}

Json function_tool(const std::string& name, Json description, Json parameters, bool strict) {
  Json function = {{"name", name}};
  if (description.is_string()) function["description"] = std::move(description);
  function["parameters"] = std::move(parameters);
  if (strict) function["strict"] = true;
  return {{"type", "function"}, {"function", std::move(function)}};
}

// format: {"type": "grammar", "syntax", "definition"}, in chat completions with a member "grammar" around the
// last two.
Json custom_parameters(const Json* format) {
  std::string about = "The tool's input, as plain text";
  if (format && format->is_object() && string_at(*format, "type") == "grammar") {
    const Json* inner = JsonFields(*format).find("grammar");
    const Json& grammar = inner && inner->is_object() ? *inner : *format;
    about += fmt::format(", which must follow this {} grammar:\n{}", string_at(grammar, "syntax"),
                         string_at(grammar, "definition"));
  }
  return object_schema({{"input", {{"type", "string"}, {"description", about}}}}, Json::array({"input"}));
}

Json custom_function(const std::string& name, Json description, const Json* format) {
  return function_tool(name, std::move(description), custom_parameters(format));
}

void read_chat_tools(JsonFields& fields, ChatRequest& request, CustomTools* custom) {
  const Json* choice = fields.find("tool_choice");
  const bool some = choice && choice->is_object() && string_at(*choice, "type") == "allowed_tools";
  if (!some) request.tool_choice = read_tool_choice(fields);
  const Json* list = fields.array("tools");
  if (list && list->size() > kMaxTools)
    fields.fail("tools", "invalid_value", fmt::format("'tools' has more than {} entries", kMaxTools));
  Json tools = Json::array();
  for (size_t i = 0; list && i < list->size() && !fields.error(); ++i) {
    const Json tool = usual_tool((*list)[i]);
    const Json* part = named_part(tool);
    if (!part) {
      fields.fail(
          fmt::format("tools[{}]", i), "invalid_value",
          fmt::format("'tools[{}]' must be {{\"type\": \"function\", \"function\": {{\"name\", ...}}}} "
                      "or {{\"type\": \"custom\", \"custom\": {{\"name\", ...}}}}",
                      i));
      return;
    }
    if (custom && is_custom(tool)) custom->insert(string_at(*part, "name"));
    tools.push_back(function_of(tool));
  }
  if (!tools.empty()) request.tools = std::move(tools);
  if (!some) return;
  const auto inner = choice->find("allowed_tools");
  keep_allowed(fields, inner != choice->end() && inner->is_object() ? *inner : *choice, request);
}

Json as_function_call(const Json& call) {
  const Json* part = is_custom(call) ? named_part(call) : nullptr;
  if (!part) return call;
  Json out = call;
  out.erase("custom");
  out["type"] = "function";
  out["function"] = {{"name", (*part)["name"]}, {"arguments", {{"input", string_at(*part, "input")}}}};
  return out;
}

std::string custom_input(const std::string& arguments) {
  auto parsed = parse_json(arguments);
  if (!parsed) parsed = parse_json(closed_object(arguments));  // of a call that was cut off
  return parsed ? string_at(*parsed, "input") : "";
}

}  // namespace anabranch::server
