// The tools of chat completions.
#pragma once

#include <set>
#include <string>

#include "chat/chat_request.h"
#include "server/api/json_fields.h"

namespace anabranch::server {

// Names of tools of type "custom". The model sees them as functions with a text as their only argument.
using CustomTools = std::set<std::string>;

// Reads "tools" and "tool_choice". With tool_choice "none" the prompt must not contain the tools, with
// "allowed_tools" only these. custom: gets the names of custom tools; null: they are not needed.
void read_chat_tools(JsonFields& fields, ChatRequest& request, CustomTools* custom);

// A call of an earlier answer, which is one of a function if it was of a custom tool.
Json as_function_call(const Json& call);
// The text in the arguments (JSON) of a call of a custom tool.
std::string custom_input(const std::string& arguments);

}  // namespace anabranch::server
