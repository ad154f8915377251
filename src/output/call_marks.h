// The marks around tool calls, a row for each format. What reads, finds and forces calls goes by these rows.
#pragma once

#include <string_view>
#include <vector>

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
  lines,     // <function_calls>NAME(KEY=VALUE, ...)</function_calls>, a call on each line (OLMo 3)
  tools,     // <tools>{"name", "arguments"}</tools>: a slip of models of the format `tagged`
  // Objects, or a list of them, in JSON between marks.
  actions,     // <|START_ACTION|>[{"tool_name", "parameters"}]<|END_ACTION|> (Command R7B, Command A)
  calls_tag,   // <tool_calls>[{"name", "arguments"}]</tool_calls> (Hunyuan, Apriel, Jamba, MiniMax-M1)
  toolcall,    // <TOOLCALL>[{"name", "arguments"}]</TOOLCALL> (Nemotron Nano 2)
  named_keys,  // <|tools_prefix|>[{NAME: {...}}]<|tools_suffix|> (Apertus)
  gigachat,    // <|function_call|>{"name", "arguments"} (GigaChat 3.1)
  // A name and an object in JSON between marks of their own (NameTags).
  deepseek,  // <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>NAME<｜tool▁sep｜>{...} (DeepSeek V3.1)
  deepseek_json,  // the same with function<｜tool▁sep｜>NAME and the object in a fence (DeepSeek V3, R1)
  kimi,           // <|tool_calls_section_begin|><|tool_call_begin|>functions.NAME:0
                  // <|tool_call_argument_begin|>{...} (Kimi K2)
  solar,  // <|tool_calls|><|tool_call:begin|>ID<|tool_call:name|>NAME<|tool_call:args|>{...} (Solar Open)
  // Arguments between tags of their own (PairTags), as minimax and seed.
  dsml_functions,  // <｜DSML｜function_calls><｜DSML｜invoke name="NAME"> (DeepSeek V3.2)
  dsml,            // <｜DSML｜tool_calls><｜DSML｜invoke name="NAME"> (DeepSeek V4)
  hunyuan,         // <tool_calls><tool_call>NAME<tool_sep><arg_key>... (Hy3's preview)
  hunyuan_open,    // the same with ":opensource" in each tag (Hy3)
  params,          // <function name="NAME"><param name="KEY">...</param></function> (MiniCPM5)
};
inline constexpr ToolFormat kLastToolFormat = ToolFormat::params;

// The marks of ToolFormat::tagged that several files look for.
inline constexpr std::string_view kCallOpen = "<tool_call>", kCallClose = "</tool_call>",
                                  kFunctionOpen = "<function=", kFunctionClose = "</function>",
                                  kToolsOpen = "<tools>";
// A token that the marks of ToolFormat::dsml are spelled with.
inline constexpr std::string_view kDsmlMark = "｜DSML｜";
// The closing mark of ToolFormat::listed, which some models leave out.
inline constexpr std::string_view kListClose = "<|/tool_call|>";

struct BlockMarks {
  ToolFormat format;
  std::string_view open;   // opens a call, or a block of calls
  std::string_view close;  // closes it; empty: nothing does for certain
  std::string_view token;  // of the vocabulary: tells the format where no template does; empty: none
  std::string_view sign;   // what a template writes for a call of probe_f with the key `key`; empty: nothing
};
// Rows for each format but `none`; the first that fits counts.
const std::vector<BlockMarks>& block_marks();

// The tags of formats that write each argument between tags of its own, and no JSON around them.
struct PairTags {
  std::string_view call_open, name_end;  // around a call's name; empty: it ends at a line end or tag
  std::string_view key_open, key_close, value_open, value_close;
  std::string_view call_close, block_close;  // an empty block_close: a block is one call
  // What ends a key whose value is a text, and one whose value is JSON; empty: the schema tells them apart.
  std::string_view text_sign = "", json_sign = "";
  // Around a value that may have tags in it; empty: there are no such marks.
  std::string_view quote_open = "", quote_close = "";
};
// Null: the format has none.
const PairTags* pair_tags(ToolFormat format);

// The marks of formats that write a name and then an object in JSON.
struct NameTags {
  std::string_view call_open;
  std::string_view id_end;           // an id stands between call_open and this; empty: none does
  std::string_view prefix;           // of the name; a model may leave it out
  bool numbered;                     // ":" and a number follow the name
  std::string_view name_end, fence;  // fence: stands behind the object
  std::string_view call_close, block_close;
};
// Null: the format has none.
const NameTags* name_tags(ToolFormat format);

// Whether the text is a whole tag. Other marks ("\">") are also ordinary text, whose tokens are not marks.
bool is_whole_tag(std::string_view text);
// The whole tags within calls of the format, beside those of block_marks(): they may be tokens.
std::vector<std::string_view> inner_tags(ToolFormat format);

// Calls in Python's notation.
inline bool is_python(ToolFormat format) {
  return format == ToolFormat::python || format == ToolFormat::lines;
}
// Only what names a tool of the request is a call.
inline bool only_offered(ToolFormat format) {
  return format == ToolFormat::plain || format == ToolFormat::tools;
}

// The marks that open a call anywhere in the output. (Calls without a mark must begin the answer.)
std::vector<std::string_view> call_openers(ToolFormat format);
// The mark that closes a block of calls behind the opener; empty: none does for certain.
std::string_view call_closer(ToolFormat format, std::string_view opener = "");
// Whether the rest of a text that the model ended is nothing, or the beginning of a tag that closes a call.
bool is_part_of_close(ToolFormat format, std::string_view rest);

}  // namespace anabranch
