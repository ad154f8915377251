// Names and types in the schemas of a request's tools.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/json.h"

namespace anabranch {

// tools: OpenAI's array, or null.
bool has_tool(const Json& tools, std::string_view name);

// The names of the parameters that the tool's schema describes.
std::set<std::string, std::less<>> parameter_names(const Json& tools, std::string_view tool);

// Whether the tool's schema names objects or lists for the parameter.
bool may_be_structured(const Json& tools, std::string_view tool, const std::string& parameter);

// Whether the parameter's value is always its text as a string. quoted: see typed_argument().
bool must_be_text(const Json& tools, std::string_view tool, const std::string& parameter,
                  bool quoted = false);

// The JSON text for a parameter that a model wrote as text: a string if the tool's schema says so or nothing
// else fits, otherwise the value that the text spells. quoted: the model marked it as a string, so that it is
// another value only if the schema allows no string. nullopt: the text is blank, and the parameter can be no
// string; the model gives no value.
std::optional<std::string> typed_argument(const Json& tools, std::string_view tool,
                                          const std::string& parameter, std::string_view text,
                                          bool quoted = false);

}  // namespace anabranch
