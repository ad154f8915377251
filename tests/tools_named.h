// Tools of a request, for tests that need only their names.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"

namespace anabranch {

// OpenAI's array, with functions that take any object.
inline Json tools_named(const std::vector<std::string>& names) {
  Json tools = Json::array();
  for (const std::string& name : names)
    tools.push_back(
        {{"type", "function"}, {"function", {{"name", name}, {"parameters", {{"type", "object"}}}}}});
  return tools;
}

}  // namespace anabranch
