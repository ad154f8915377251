// The tools of the Responses API as functions that models know, and the model's calls as that API's items.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "chat/constraints.h"
#include "server/api/json_fields.h"

namespace anabranch::server {

struct ResponseTool {
  enum class Kind { function, custom, local_shell };
  Kind kind = Kind::function;
  std::string name;   // as the client has it
  std::string space;  // the namespace it stands in; "": none
};

struct ResponseTools {
  Json functions = Json::array();             // OpenAI's chat form, for the template
  std::map<std::string, ResponseTool> known;  // by the name that the model sees
  std::vector<std::string> left_out;          // types of tools that only OpenAI's servers run
};

// Reads "tools" and "tool_choice". Fails for tools without a name, and for a choice that names none of them.
// With a choice of "allowed_tools" only these are offered.
ResponseTools read_response_tools(JsonFields& fields, ToolChoice& choice);

// The name that the model sees for a tool in a namespace.
std::string model_name(const std::string& space, const std::string& name);
// A call's item, without "id" and "status". arguments: JSON text.
Json call_item(const ResponseTools& tools, const std::string& model_name, const std::string& call_id,
               const std::string& arguments);
// The call that such an item stands for: {"id", "type", "function": {"name", "arguments"}}; null for other
// items.
Json call_of(const Json& item);

}  // namespace anabranch::server
