// Tools as functions that models know, and the tools of chat completions.
#pragma once

#include <set>
#include <string>

#include "chat/chat_request.h"
#include "server/api/json_fields.h"

namespace anabranch::server {

// A JSON schema of an object. required: names of properties.
Json object_schema(Json properties, Json required);
// A tool in OpenAI's chat format, which templates take. description: a string, or null.
Json function_tool(const std::string& name, Json description, Json parameters, bool strict = false);
// The parameters of a custom tool: one text. format: see custom_function().
Json custom_parameters(const Json* format);
// A custom tool, which takes free text, as a function whose only argument is this text. format: null: any
// text.
Json custom_function(const std::string& name, Json description, const Json* format);

// Names of tools of type "custom". The model sees them as functions with a text as their only argument.
using CustomTools = std::set<std::string>;

// Reads "tools" and "tool_choice". With "allowed_tools" the prompt has only these. custom: gets the names of
// custom tools; null: they are not needed.
void read_chat_tools(JsonFields& fields, ChatRequest& request, CustomTools* custom);

// A call of an earlier answer, which is one of a function if it was of a custom tool.
Json as_function_call(const Json& call);
// The text in the arguments (JSON) of a call of a custom tool.
std::string custom_input(const std::string& arguments);

}  // namespace anabranch::server
