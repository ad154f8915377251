// Anthropic's blocks of calls, results and thoughts in messages of a chat, as programs send them that keep
// one history for both APIs.
#pragma once

#include <vector>

#include "base/json.h"

namespace anabranch::server {

// Whether the message has such blocks.
bool has_call_blocks(const Json& message);
// The messages of OpenAI's that it stands for: calls become `tool_calls`, thoughts `reasoning_content`, and
// each result a message of its own. Other parts stay parts.
std::vector<Json> without_call_blocks(const Json& message);

}  // namespace anabranch::server
