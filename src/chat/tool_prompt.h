// Tools for chat templates that do not know them: a generic form in the system prompt, and calls and their
// results as text in the conversation.
#pragma once

#include <memory>

#include "jinja/chat_template.h"

namespace anabranch {

// Whether the template shows the model its tools.
bool shows_tools(const ChatTemplate& chat);

// The same template with a generic tool form: the system prompt lists the tools and says how to call them,
// and an assistant's calls stand in its turn as
//   <tool_call>
//   {"name": ..., "arguments": {...}}
//   </tool_call>
// (ToolForm::tagged). Results are user messages, between <tool_response> and </tool_response>. Where the
// template takes no system message, the first user message begins with the instructions. `chat` must outlive
// it.
std::unique_ptr<const ChatTemplate> with_tool_prompt(const ChatTemplate& chat);

}  // namespace anabranch
