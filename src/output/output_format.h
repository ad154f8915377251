// How a model marks reasoning and tool calls in its output.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "jinja/chat_template.h"
#include "output/call_marks.h"
#include "output/reasoning.h"
#include "tokenizer/tokenizer.h"

namespace anabranch {

struct OutputFormat {
  std::optional<ReasoningTags> reasoning;  // none: everything is content
  ToolFormat tools = ToolFormat::none;
  bool function_tags = false;  // tagged, and the template writes <function=NAME>
  // Models that were taught tags around JSON may leave them out, or write <tools> instead (Qwen2.5-Coder).
  bool tags_have_json() const { return tools == ToolFormat::tagged && !function_tags; }
};

// Finds the format from the template's rendering of a call, otherwise from the vocabulary. chat: may be null.
OutputFormat find_output_format(const ChatTemplate* chat, const Tokenizer& tokenizer);

// Whether the template shows the model its tools. If not, they are described in a format of our own
// (chat/tool_prompt.h), whatever marks the template writes around calls.
bool shows_tools(const ChatTemplate& chat);

// Whether a call cannot begin without a token of its own, or a message's header: then calls can be forbidden.
bool calls_open_with_token(const OutputFormat& format, const Tokenizer& tokenizer);
// Tokens that mark thoughts, calls and their results. A grammar's text never contains them.
std::vector<int> mark_tokens(const OutputFormat& format, const Tokenizer& tokenizer);

}  // namespace anabranch
