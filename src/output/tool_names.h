// The names by which models call a request's tools.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/json.h"

namespace anabranch {

// Names that say where a tool comes from ("server__tool", "mcp__server__tool") are shortened by small models
// to what stands behind a "__". Returns these short names with the tools' own ones, without those that
// several tools could mean. tools: OpenAI's array, or null.
std::map<std::string, std::string, std::less<>> short_names(const Json& tools);

// The name of the tool that a model means with `written`; `written` itself if it means none.
std::string offered_name(const Json& tools, std::string_view written);

}  // namespace anabranch
