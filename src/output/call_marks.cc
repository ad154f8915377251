#include "output/call_marks.h"

#include <algorithm>

#include "output/message_reader.h"

namespace anabranch {

const std::vector<BlockMarks>& block_marks() {
  using enum ToolFormat;
  static const std::vector<BlockMarks> kRows = {
      {gemma4, "<|tool_call>", "", "<|tool_call>", "<|tool_call>call:probe_f{"},
      {function_gemma, "<start_function_call>", "", "<start_function_call>",
       "<start_function_call>call:probe_f{"},
      {messages, kMessageCallOpen, "", "<|constrain|>", " to=functions.probe_f"},
      {mistral, "[TOOL_CALLS]", "", "[TOOL_CALLS]", "[TOOL_CALLS]"},
      {listed, "<|tool_call|>", "", "<|tool_call|>", "<|tool_call|>"},
      {hunyuan_open, "<tool_calls:opensource>", "</tool_calls:opensource>", "<tool_calls:opensource>",
       "<tool_calls:opensource>"},
      {hunyuan, "<tool_calls>", "</tool_calls>", "<tool_sep>", "probe_f<tool_sep>"},
      {key_tags, kCallOpen, kCallClose, "<arg_key>", "<arg_key>key</arg_key>"},
      {minimax, "<minimax:tool_call>", "</minimax:tool_call>", "<minimax:tool_call>",
       "<invoke name=\"probe_f\">"},
      {seed, "<seed:tool_call>", "</seed:tool_call>", "<seed:tool_call>", "<seed:tool_call>"},
      {python, "<|tool_call_start|>", "<|tool_call_end|>", "<|tool_call_start|>", "<|tool_call_start|>"},
      {lines, "<function_calls>", "</function_calls>", "<function_calls>", "<function_calls>"},
      {actions, "<|START_ACTION|>", "<|END_ACTION|>", "<|START_ACTION|>", "<|START_ACTION|>"},
      {toolcall, "<TOOLCALL>", "</TOOLCALL>", "<TOOLCALL>", "<TOOLCALL>"},
      {named_keys, "<|tools_prefix|>", "<|tools_suffix|>", "<|tools_prefix|>", "<|tools_prefix|>"},
      {gigachat, "<|function_call|>", "", "<|function_call|>", "<|function_call|>"},
      {kimi, "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_calls_section_begin|>",
       "<|tool_calls_section_begin|>"},
      {solar, "<|tool_calls|>", "<|calls|>", "<|tool_call:begin|>", "<|tool_call:begin|>"},
      {dsml, "<｜DSML｜tool_calls>", "</｜DSML｜tool_calls>", "", "<｜DSML｜tool_calls>"},
      {dsml_functions, "<｜DSML｜function_calls>", "</｜DSML｜function_calls>", "",
       "<｜DSML｜function_calls>"},
      {deepseek, "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "", "probe_f<｜tool▁sep｜>"},
      {deepseek_json, "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "", "<｜tool▁sep｜>probe_f"},
      {calls_tag, "<tool_calls>", "</tool_calls>", "", "<tool_calls>"},
      {params, "<function name=\"", kFunctionClose, "", "<function name=\"probe_f\">"},
      {tagged, kCallOpen, kCallClose, kCallOpen, kCallOpen},
      {tagged, kCallOpen, kCallClose, "", "<function=probe_f>"},
      {plain, "<|python_tag|>", "", "<|python_tag|>", "{\"name\": \"probe_f\", \"parameters\""},
      // Gemma 2 and 3, whose vocabulary has no other mark, write calls as the prompt demands.
      {plain, "<|python_tag|>", "", "<start_of_turn>", "{\"name\":\"probe_f\",\"parameters\""},
      {tools, kToolsOpen, "</tools>", "", ""},
  };
  return kRows;
}

namespace {

const BlockMarks* row_of(ToolFormat format) {
  const auto row = std::ranges::find(block_marks(), format, &BlockMarks::format);
  return row == block_marks().end() ? nullptr : &*row;
}

}  // namespace

bool is_whole_tag(std::string_view text) {
  return text.size() > 2 && text.front() == '<' && text.back() == '>';
}

std::vector<std::string_view> inner_tags(ToolFormat format) {
  std::vector<std::string_view> tags;
  if (const PairTags* pair = pair_tags(format))
    tags = {pair->call_open,  pair->name_end,    pair->key_open,   pair->key_close,
            pair->value_open, pair->value_close, pair->call_close, pair->block_close};
  if (const NameTags* name = name_tags(format))
    tags = {name->call_open, name->id_end, name->name_end, name->call_close, name->block_close};
  std::erase_if(tags, [](std::string_view tag) { return !is_whole_tag(tag); });
  // Some tags are spelled around a token.
  if (format == ToolFormat::dsml || format == ToolFormat::dsml_functions) tags.push_back(kDsmlMark);
  if (format == ToolFormat::deepseek_json)
    tags.insert(tags.end(), {"<｜tool▁call▁begin｜>", "<｜tool▁sep｜>"});
  return tags;
}

std::vector<std::string_view> call_openers(ToolFormat format) {
  const BlockMarks* row = row_of(format);
  if (!row) return {};
  if (format == ToolFormat::tagged) return {row->open, kFunctionOpen};
  return {row->open};
}

std::string_view call_closer(ToolFormat format, std::string_view opener) {
  if (format == ToolFormat::tagged && opener == kFunctionOpen) return kFunctionClose;
  const BlockMarks* row = row_of(format);
  return row ? row->close : "";
}

bool is_part_of_close(ToolFormat format, std::string_view rest) {
  const PairTags* tags = pair_tags(format);
  return tags ? tags->call_close.starts_with(rest)
              : kFunctionClose.starts_with(rest) || kCallClose.starts_with(rest);
}

const PairTags* pair_tags(ToolFormat format) {
  static constexpr PairTags kKeyTags{"",         "", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>",
                                     kCallClose, ""};
  static constexpr PairTags kMiniMax{"<invoke name=\"", "\">",       "<parameter name=\"",  "\">", "",
                                     "</parameter>",    "</invoke>", "</minimax:tool_call>"};
  static constexpr PairTags kSeed{
      kFunctionOpen, ">", "<parameter=", ">", "", "</parameter>", kFunctionClose, "</seed:tool_call>"};
  static constexpr PairTags kHunyuan{kCallOpen,     "<tool_sep>",   "<arg_key>", "</arg_key>",
                                     "<arg_value>", "</arg_value>", kCallClose,  "</tool_calls>"};
  static constexpr PairTags kHunyuanOpen{"<tool_call:opensource>",  "<tool_sep:opensource>",
                                         "<arg_key:opensource>",    "</arg_key:opensource>",
                                         "<arg_value:opensource>",  "</arg_value:opensource>",
                                         "</tool_call:opensource>", "</tool_calls:opensource>"};
  static constexpr PairTags kDsml{"<｜DSML｜invoke name=\"",
                                  "\">",
                                  "<｜DSML｜parameter name=\"",
                                  "\">",
                                  "",
                                  "</｜DSML｜parameter>",
                                  "</｜DSML｜invoke>",
                                  "</｜DSML｜tool_calls>",
                                  "\" string=\"true",
                                  "\" string=\"false"};
  static constexpr PairTags kDsmlFunctions{kDsml.call_open,
                                           kDsml.name_end,
                                           kDsml.key_open,
                                           kDsml.key_close,
                                           "",
                                           kDsml.value_close,
                                           kDsml.call_close,
                                           "</｜DSML｜function_calls>",
                                           kDsml.text_sign,
                                           kDsml.json_sign};
  static constexpr PairTags kParams{"", "\">", "<param name=\"", "\">", "", "</param>", kFunctionClose, "",
                                    "", "",    "<![CDATA[",      "]]>"};
  switch (format) {
    case ToolFormat::key_tags:
      return &kKeyTags;
    case ToolFormat::minimax:
      return &kMiniMax;
    case ToolFormat::seed:
      return &kSeed;
    case ToolFormat::hunyuan:
      return &kHunyuan;
    case ToolFormat::hunyuan_open:
      return &kHunyuanOpen;
    case ToolFormat::dsml:
      return &kDsml;
    case ToolFormat::dsml_functions:
      return &kDsmlFunctions;
    case ToolFormat::params:
      return &kParams;
    default:
      return nullptr;
  }
}

const NameTags* name_tags(ToolFormat format) {
  static constexpr NameTags kDeepSeek{
      "<｜tool▁call▁begin｜>", "", "", false, "<｜tool▁sep｜>", "", "<｜tool▁call▁end｜>",
      "<｜tool▁calls▁end｜>"};
  static constexpr NameTags kDeepSeekJson{"<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
                                          "",
                                          "",
                                          false,
                                          "\n```json\n",
                                          "```",
                                          "<｜tool▁call▁end｜>",
                                          "<｜tool▁calls▁end｜>"};
  static constexpr NameTags kKimi{
      "<|tool_call_begin|>",          "", "functions.",        true,
      "<|tool_call_argument_begin|>", "", "<|tool_call_end|>", "<|tool_calls_section_end|>"};
  static constexpr NameTags kSolar{
      "<|tool_call:begin|>", "<|tool_call:name|>", "", false, "<|tool_call:args|>", "",
      "<|tool_call:end|>",   "<|calls|>"};
  switch (format) {
    case ToolFormat::deepseek:
      return &kDeepSeek;
    case ToolFormat::deepseek_json:
      return &kDeepSeekJson;
    case ToolFormat::kimi:
      return &kKimi;
    case ToolFormat::solar:
      return &kSolar;
    default:
      return nullptr;
  }
}

}  // namespace anabranch
