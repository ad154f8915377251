#include "server/api/responses/client_tools.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "mcp/toolbox.h"

namespace anabranch::server {
namespace {

// The member of an object; null if it is not there.
Json member(const Json& object, const char* name) {
  const auto at = object.is_object() ? object.find(name) : object.end();
  return object.is_object() && at != object.end() ? *at : Json();
}

Json described(const char* type, const char* about) {
  return {{"type", type}, {"description", about}};
}

Json texts() {
  return {{"type", "array"}, {"items", {{"type", "string"}}}};
}

// The members of the item's object that are set, without some.
Json arguments_in(const Json& item, const char* name, std::initializer_list<const char*> without = {}) {
  Json out = Json::object();
  const Json object = member(item, name);
  if (!object.is_object()) return out;
  for (const auto& [key, value] : object.items())
    if (!value.is_null() && std::ranges::find(without, key) == without.end()) out[key] = value;
  return out;
}

std::optional<std::string> like_content(const Json&) {
  return std::nullopt;
}

// --- local_shell

Json local_shell_parameters() {
  return object_schema({{"command", texts()},
                        {"working_directory", {{"type", "string"}}},
                        {"timeout_ms", {{"type", "integer"}}}},
                       Json::array({"command"}));
}

Json local_shell_call(const Json& arguments) {
  Json action = {{"type", "exec"}, {"command", Json::array()}, {"env", Json::object()}};
  action.update(arguments);
  return {{"action", std::move(action)}};
}

Json local_shell_arguments(const Json& item) {
  return arguments_in(item, "action", {"type", "env", "user"});
}

// --- shell

Json shell_parameters() {
  Json commands = texts();
  commands["description"] = "The commands, each as one line for the shell";
  return object_schema({{"commands", std::move(commands)},
                        {"timeout_ms", described("integer", "The most time for all of them")},
                        {"max_output_length", described("integer", "The most characters of output")}},
                       Json::array({"commands"}));
}

Json shell_call(const Json& arguments) {
  Json given = member(arguments, "commands"), commands = Json::array();
  if (given.is_string()) given = Json::array({given});
  for (const Json& command : given)
    if (command.is_string()) commands.push_back(command);
  Json action = {{"commands", std::move(commands)}};
  for (const char* name : {"timeout_ms", "max_output_length"}) {
    Json number = member(arguments, name);
    action[name] = number.is_number_integer() ? std::move(number) : Json();
  }
  return {{"action", std::move(action)}, {"environment", {{"type", "local"}}}};
}

Json shell_arguments(const Json& item) {
  return arguments_in(item, "action");
}

// "output": [{"stdout", "stderr", "outcome": {"type": "exit", "exit_code"} or {"type": "timeout"}}]
std::optional<std::string> shell_result(const Json& item) {
  const Json output = member(item, "output");
  if (!output.is_array()) return std::nullopt;
  std::string text;
  const auto add = [&](const std::string& part) {
    if (!text.empty() && !part.empty() && !text.ends_with('\n')) text += '\n';
    text += part;
  };
  for (const Json& one : output) {
    add(string_at(one, "stdout"));
    if (const std::string errors = string_at(one, "stderr"); !errors.empty()) add("[stderr]\n" + errors);
    const Json outcome = member(one, "outcome"), code = member(outcome, "exit_code");
    if (string_at(outcome, "type") == "timeout") add("[timed out]");
    if (code.is_number_integer()) add(fmt::format("[exit code {}]", code.get<int64_t>()));
  }
  return text;
}

// --- apply_patch

constexpr std::array kOperations = {"create_file", "update_file", "delete_file"};

Json patch_parameters() {
  return object_schema(
      {{"type", {{"type", "string"}, {"enum", kOperations}}},
       {"path", {{"type", "string"}}},
       {"diff",
        described("string",
                  "Empty for delete_file. For create_file, the file's lines, each with + before it. For "
                  "update_file, for each place a line @@ (with the head of its function or class, if "
                  "needed) and then lines with - (removed), + (added) or a space (kept) before them")}},
      Json::array({"type", "path", "diff"}));
}

Json patch_call(const Json& arguments) {
  const std::string type = string_at(arguments, "type");
  const bool known = std::ranges::find(kOperations, type) != kOperations.end();
  // A wrong name from a model must not delete a file.
  Json operation = {{"type", known ? type : "update_file"}, {"path", string_at(arguments, "path")}};
  if (type != "delete_file") operation["diff"] = string_at(arguments, "diff");
  return {{"operation", std::move(operation)}};
}

Json patch_arguments(const Json& item) {
  return arguments_in(item, "operation");
}

std::optional<std::string> patch_result(const Json& item) {
  const bool failed = string_at(item, "status") == "failed";
  const std::string told = string_at(item, "output");
  if (!told.empty()) return mcp::text_for_model(failed, told);
  return mcp::text_for_model(failed, failed ? "the patch was not applied" : "Done");
}

constexpr std::array kTools = {
    ClientTool{"local_shell", "Runs a command on the user's machine", local_shell_parameters,
               local_shell_call, local_shell_arguments, like_content},
    ClientTool{"shell", "Runs commands in the user's shell and gives their output", shell_parameters,
               shell_call, shell_arguments, shell_result},
    ClientTool{"apply_patch", "Creates, updates or deletes a file of the user", patch_parameters, patch_call,
               patch_arguments, patch_result}};

const ClientTool* find(auto which) {
  const auto at = std::ranges::find_if(kTools, which);
  return at == kTools.end() ? nullptr : &*at;
}

}  // namespace

const ClientTool* client_tool(const std::string& type) {
  return find([&](const ClientTool& tool) { return tool.type == type; });
}

const ClientTool* client_tool_of_call(const std::string& item_type) {
  return find([&](const ClientTool& tool) { return tool.call_type() == item_type; });
}

bool runs_at_client(JsonFields& tool) {
  const Json* environment = tool.object("environment");
  return !environment || string_at(*environment, "type") == "local";
}

std::string description_of(const ClientTool& tool, const Json& given) {
  std::string about = tool.about;
  const Json skills = member(member(given, "environment"), "skills");
  if (!skills.is_array() || skills.empty()) return about;
  about += ". There are instructions for these tasks:";
  for (const Json& skill : skills)
    about += fmt::format("\n- {} (in the folder {}): {}", string_at(skill, "name"), string_at(skill, "path"),
                         string_at(skill, "description"));
  return about;
}

std::optional<std::string> client_result(const Json& item) {
  const std::string type = string_at(item, "type");
  const ClientTool* tool = find([&](const ClientTool& one) { return one.call_type() + "_output" == type; });
  return tool ? tool->result(item) : std::nullopt;
}

}  // namespace anabranch::server
