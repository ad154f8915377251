// A tool call that a model wrote as JSON.
#pragma once

#include <optional>
#include <string_view>

#include "base/json_text.h"
#include "base/white_space.h"
#include "output/tool_call.h"

namespace anabranch {

// {"name" or "tool_name": ..., "arguments" or "parameters": {...}}, also as {"function": {...}} or with the
// arguments in a string, as OpenAI writes them. need_arguments: a name alone is no call.
std::optional<ToolCall> call_from_json(std::string_view text, bool need_arguments);
// {NAME: {...}}
std::optional<ToolCall> call_under_its_name(std::string_view text);

}  // namespace anabranch
