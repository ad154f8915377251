// How a model marks reasoning and tool calls in its output.
#pragma once

#include <array>
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
  key_tags,  // <tool_call>NAME<arg_key>KEY</arg_key><arg_value>...</arg_value></tool_call> (GLM-4.5)
  minimax,   // <minimax:tool_call><invoke name="NAME"><parameter name="KEY">...</parameter></invoke>
             // </minimax:tool_call>, several <invoke> in a block (MiniMax M2)
  seed,      // <seed:tool_call><function=NAME><parameter=KEY>...</parameter></function></seed:tool_call>
             // (Seed-OSS)
  python,    // <|tool_call_start|>[NAME(KEY=VALUE, ...), ...]<|tool_call_end|> (LFM2)
};

// The marks of ToolFormat::tagged that several files look for.
inline constexpr std::string_view kCallClose = "</tool_call>",
                                  kFunctionOpen = "<function=", kFunctionClose = "</function>";
// The closing mark of ToolFormat::listed, which some models leave out.
inline constexpr std::string_view kListClose = "<|/tool_call|>";

// The tags of formats that write each argument between tags of its own, and no JSON around them.
struct PairTags {
  std::string_view call_open, name_end;  // around a call's name; empty: it ends at a line end or tag
  std::string_view key_open, key_close, value_open, value_close;
  std::string_view call_close, block_close;  // an empty block_close: a block is one call
  // Those that may be tokens of the vocabulary; some are empty.
  std::array<std::string_view, 6> marks() const {
    return {key_open, key_close, value_open, value_close, call_close, block_close};
  }
};
// Null: the format has none.
const PairTags* pair_tags(ToolFormat format);

struct OutputFormat {
  std::optional<ReasoningTags> reasoning;  // none: everything is content
  ToolFormat tools = ToolFormat::none;
  bool function_tags = false;  // tagged, and the template writes <function=NAME>
};

// Finds the format from the template's rendering of a call, otherwise from the vocabulary. chat: may be null.
OutputFormat find_output_format(const ChatTemplate* chat, const Tokenizer& tokenizer);

// The marks that open a call anywhere in the output. (Calls without a mark must begin the answer.)
std::vector<std::string_view> call_openers(ToolFormat format);
// Whether a call cannot begin without a token of its own, or a message's header: then calls can be forbidden.
bool calls_open_with_token(const OutputFormat& format, const Tokenizer& tokenizer);
// The mark that closes a block of calls behind the opener; empty: none does for certain.
std::string_view call_closer(ToolFormat format, std::string_view opener = "");
// Whether the rest of a text that the model ended is nothing, or the beginning of a tag that closes a call.
bool is_part_of_close(ToolFormat format, std::string_view rest);

// Tokens that mark thoughts, calls and their results. A grammar's text never contains them.
std::vector<int> mark_tokens(const OutputFormat& format, const Tokenizer& tokenizer);

}  // namespace anabranch
