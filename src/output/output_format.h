// How a model marks reasoning and tool calls in its output.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "jinja/chat_template.h"
#include "output/reasoning.h"
#include "tokenizer/tokenizer.h"

namespace anabranch {

enum class ToolFormat {
  none,
  tagged,          // <tool_call>{"name", "arguments"}</tool_call>, or without tags (Hermes, Qwen), or with
                   // <function=NAME><parameter=KEY>...</parameter></function> inside (Qwen3-Coder, Qwen3.5)
  plain,           // the whole answer is {"name", "parameters"}, several with ";" between (Llama 3, Gemma 3)
  mistral,         // [TOOL_CALLS][{...}], [TOOL_CALLS]NAME[ARGS]{...}
  listed,          // <|tool_call|>[{"name", "arguments"}] (Granite 3), also with <|/tool_call|> (Phi-4-mini)
  gemma4,          // <|tool_call>call:NAME{key:<|"|>text<|"|>}<tool_call|>
  function_gemma,  // <start_function_call>call:NAME{key:<escape>text<escape>}<end_function_call>
  messages,  // <|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{...}<|call|> (gpt-oss)
};

// The marks of ToolFormat::tagged that several files look for.
inline constexpr std::string_view kCallClose = "</tool_call>",
                                  kFunctionOpen = "<function=", kFunctionClose = "</function>";
// The closing mark of ToolFormat::listed, which some models leave out.
inline constexpr std::string_view kListClose = "<|/tool_call|>";

struct OutputFormat {
  std::optional<ReasoningTags> reasoning;  // none: everything is content
  ToolFormat tools = ToolFormat::none;
  bool function_tags = false;  // tagged, and the template writes <function=NAME>
};

// Finds the format from the template's rendering of a call, otherwise from the vocabulary. chat: may be null.
OutputFormat find_output_format(const ChatTemplate* chat, const Tokenizer& tokenizer);

// The marks that open a call anywhere in the output. (Calls without a mark must begin the answer.)
std::vector<std::string_view> call_openers(ToolFormat format);

// Tokens that mark thoughts, calls and their results. A grammar's text never contains them.
std::vector<int> mark_tokens(const OutputFormat& format, const Tokenizer& tokenizer);

}  // namespace anabranch
