// Names and types in the schemas of a request's tools.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace anabranch {

// tools: OpenAI's array, or null.
bool has_tool(const Json& tools, std::string_view name);

// The JSON text for a parameter that a model wrote as bare text: a string if the tool's schema says so or
// nothing else fits, otherwise the value that the text spells.
std::string typed_argument(const Json& tools, std::string_view tool, const std::string& parameter,
                           std::string_view text);

}  // namespace anabranch
