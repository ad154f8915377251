#include "server/api/anthropic/tools.h"

#include <fmt/format.h>

namespace anabranch::server {
namespace {

Json text(const char* what) {
  return {{"type", "string"}, {"description", what}};
}

Json schema(Json properties, Json required) {
  return {{"type", "object"}, {"properties", std::move(properties)}, {"required", std::move(required)}};
}

Json shell_schema() {
  return schema({{"command", text("The command to run")},
                 {"restart", {{"type", "boolean"}, {"description", "Restart the shell"}}}},
                Json::array());
}

Json line(const char* what) {
  return {{"type", "integer"}, {"description", what}};
}

Json editor_schema() {
  return schema({{"command", {{"type", "string"}, {"enum", {"view", "create", "str_replace", "insert"}}}},
                 {"path", text("The file or folder")},
                 {"view_range",
                  {{"type", "array"},
                   {"items", {{"type", "integer"}}},
                   {"description", "First and last line to view"}}},
                 {"file_text", text("create: the file's text")},
                 {"old_str", text("str_replace: the text to replace")},
                 {"new_str", text("str_replace: the new text")},
                 {"insert_line", line("insert: the line after which the text goes")},
                 {"insert_text", text("insert: the text")}},
                {"command", "path"});
}

Json memory_schema() {
  return schema(
      {{"command",
        {{"type", "string"}, {"enum", {"view", "create", "str_replace", "insert", "delete", "rename"}}}},
       {"path", text("A path below /memories")},
       {"file_text", text("create: the file's text")},
       {"old_str", text("str_replace: the text to replace")},
       {"new_str", text("str_replace: the new text")},
       {"insert_line", line("insert: the line after which the text goes")},
       {"insert_text", text("insert: the text")},
       {"old_path", text("rename: the present path")},
       {"new_path", text("rename: the new path")}},
      {"command"});
}

// A tool of a type that Anthropic defines and the client runs. The client chooses its name. Reference:
// Anthropic's documentation of the bash, text editor and memory tools.
struct AnthropicTool {
  const char* type;  // type without its date
  const char* description;
  Json (*schema)();
};
constexpr AnthropicTool kAnthropicTools[] = {
    {"bash_", "Runs commands in a shell that keeps its state", shell_schema},
    {"text_editor_", "Views, creates and edits text files", editor_schema},
    {"memory_", "Stores notes in files below /memories, which last from one conversation to the next",
     memory_schema},
};

const AnthropicTool* anthropic_tool(const std::string& type) {
  for (const AnthropicTool& tool : kAnthropicTools)
    if (type.starts_with(tool.type)) return &tool;
  return nullptr;
}

Json function_of(JsonFields& fields, const AnthropicTool* known, const std::string& where) {
  Json function = {{"name", fields.required_string("name")}};
  if (known) {
    function["description"] = known->description;
    function["parameters"] = known->schema();
    return function;
  }
  if (const std::string* description = fields.string("description")) function["description"] = *description;
  if (const Json* given = fields.object("input_schema"))
    function["parameters"] = *given;
  else
    fields.fail("input_schema", "missing_required_parameter",
                fmt::format("'{}.input_schema' is missing", where));
  if (fields.boolean("strict").value_or(false)) function["strict"] = true;
  return function;
}

}  // namespace

Json read_anthropic_tools(JsonFields& request, const Json& list, std::vector<std::string>& left_out,
                          CacheMarks& marks) {
  constexpr size_t kMostOfType = 64;
  Json tools = Json::array();
  for (size_t i = 0; i < list.size() && !request.error(); ++i) {
    const std::string where = fmt::format("tools[{}]", i);
    if (!list[i].is_object()) {
      request.fail(where, "invalid_type",
                   fmt::format("'{}' must be an object, not {}", where, json_type(list[i])));
      continue;
    }
    JsonFields fields(list[i], where + ".");
    const std::string* type = fields.string("type");
    const AnthropicTool* known = type ? anthropic_tool(*type) : nullptr;
    const bool toolset = type && *type == "mcp_toolset";
    if (toolset) {
      // Its tools, which are read with "mcp_servers", come last.
    } else if (type && *type != "custom" && !known) {
      left_out.push_back(type->substr(0, kMostOfType));
    } else {
      tools.push_back({{"type", "function"}, {"function", function_of(fields, known, where)}});
    }
    // A mark before the first tool has no place in the prompt.
    const size_t end = tools.empty() ? kNoTool : tools.size() - 1;
    marks.read(fields, {CacheMark::In::tools, toolset ? kToolsetEnd : end});
    if (fields.error()) request.fail(*fields.error());
  }
  return tools;
}

}  // namespace anabranch::server
