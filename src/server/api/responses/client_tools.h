// Tools of the Responses API that have item types of their own and run at the client: local_shell, shell with
// a local environment, and apply_patch. Models see them as functions.
#pragma once

#include <optional>
#include <string>

#include "base/json.h"
#include "server/api/chat_tools.h"
#include "server/api/json_fields.h"

namespace anabranch::server {

struct ClientTool {
  const char* type;   // of the tool, and the function's name
  const char* about;  // the function's description
  Json (*parameters)();
  // The fields of a call's item besides "type" and "call_id". arguments: an object, which may not match the
  // schema because the model wrote it.
  Json (*call)(const Json& arguments);
  // The arguments of such an item, which a client has sent.
  Json (*arguments)(const Json& item);
  // The text for the model of a result's item; none: its "output" is like a message's content.
  std::optional<std::string> (*result)(const Json& item);

  std::string call_type() const { return std::string(type) + "_call"; }
};

// The tool of this type; null: there is none.
const ClientTool* client_tool(const std::string& type);
// The tool whose calls have this item type; null: there is none.
const ClientTool* client_tool_of_call(const std::string& item_type);

// Whether the client runs the tool; OpenAI's servers run those with the environment of a container.
bool runs_at_client(JsonFields& tool);
// The function's description, with the skills of the tool's environment.
std::string description_of(const ClientTool& tool, const Json& given);

// The text for the model of an item with the result of a client's tool; none: read its "output".
std::optional<std::string> client_result(const Json& item);

}  // namespace anabranch::server
