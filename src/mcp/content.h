// Converts the content blocks of results to text for a model.
#pragma once

#include "base/json.h"
#include "mcp/client.h"

namespace anabranch::mcp {

// A result of tools/call: its content, or structuredContent if the content has no text.
Output read_call_result(const Json& result, size_t most_bytes);
// An array of content blocks: text, image, audio, resource, resource_link.
Output read_content(const Json& blocks, size_t most_bytes);
// The contents array of a resource.
Output read_contents(const Json& contents, size_t most_bytes);

}  // namespace anabranch::mcp
