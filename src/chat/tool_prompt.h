// Tools for chat templates without tool support: a generic format in the system prompt, and calls and their
// results as text in the conversation.
#pragma once

#include <memory>

#include "jinja/chat_template.h"
#include "output/output_format.h"

namespace anabranch {

// The same template with a generic tool format: the system prompt lists the tools and says how to call them,
// and an assistant's calls are written in its turn as
//   <tool_call>
//   {"name": ..., "arguments": {...}}
//   </tool_call>
// (ToolFormat::tagged). Results are user messages, between <tool_response> and </tool_response>. If the
// template takes no system message, the first user message begins with the instructions. `chat` must outlive
// the result.
std::unique_ptr<const ChatTemplate> with_tool_prompt(const ChatTemplate& chat);

// The messages with calls, or results, written as with_tool_prompt() writes them. Consecutive results, and a
// user's text after them, become one message, because some templates want the roles to alternate.
Json with_calls_as_text(const Json& messages);
Json with_results_as_text(const Json& messages);
// One result as a user message of its own.
Json result_as_user(const Json& result);

}  // namespace anabranch
