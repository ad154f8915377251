// Calls in a code fence, as models write them that were trained on Markdown.
#pragma once

#include <string_view>

#include "base/json.h"
#include "base/json_text.h"

namespace anabranch {

// Whether a text that may go on begins with a fence and, in it, a call's object as far as the name of a tool:
// ```json {"name": "NAME", "arguments": . Braces may be doubled. tools: OpenAI's array.
Scan fenced_call_head(std::string_view text, const Json& tools);

}  // namespace anabranch
