// What a request's tools say about names and types.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace anabranch {

// tools: OpenAI's array, or null.
bool has_tool(const Json& tools, std::string_view name);

// The JSON text for a parameter that a model wrote as bare text: a string where the tool's schema says so (or
// where nothing else fits), else the value it spells.
std::string typed_argument(const Json& tools, std::string_view tool, const std::string& parameter,
                           std::string_view text);

}  // namespace anabranch
