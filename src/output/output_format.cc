#include "output/output_format.h"

#include <algorithm>

#include "base/white_space.h"
#include "output/message_reader.h"

namespace anabranch {
namespace {

// A call as the template renders it; "" if it cannot.
std::string rendered_call(const ChatTemplate& chat) {
  const Json schema = {{"type", "object"}, {"properties", {{"key", {{"type", "string"}}}}}};
  const Json tools = Json::array(
      {{{"type", "function"},
        {"function", {{"name", "probe_f"}, {"description", "A probe"}, {"parameters", schema}}}}});
  const Json call = {{"id", "probe0001"},  // Mistral's templates want nine letters and digits
                     {"type", "function"},
                     {"function", {{"name", "probe_f"}, {"arguments", {{"key", "value"}}}}}};
  const Json messages =
      Json::array({{{"role", "user"}, {"content", "A"}},
                   {{"role", "assistant"}, {"content", ""}, {"tool_calls", Json::array({call})}},
                   {{"role", "tool"}, {"tool_call_id", "probe0001"}, {"name", "probe_f"}, {"content", "B"}}});
  for (const bool listed : {true, false}) {
    TemplateOptions options;
    options.add_generation_prompt = false;
    options.now = 0;
    const auto pieces = chat.render(messages, listed ? tools : Json(), options);
    if (pieces.ok()) return join(*pieces);
  }
  return "";
}

// Whether the template writes white space before a thought, which the prompt of an answer does not have.
bool has_blanks_before(const ChatTemplate& chat, const ReasoningTags& tags) {
  Json messages = Json::array({{{"role", "user"}, {"content", "A"}}});
  TemplateOptions options;
  options.enable_thinking = true;
  options.now = 0;
  const auto prompt = chat.render(messages, Json(), options);
  messages.push_back({{"role", "assistant"}, {"content", "B"}, {"reasoning_content", "C"}});
  options.add_generation_prompt = false;
  const auto answered = chat.render(messages, Json(), options);
  if (!prompt.ok() || !answered.ok()) return false;
  const std::string begin = join(*prompt), whole = join(*answered);
  if (!whole.starts_with(begin)) return false;
  const auto answer = std::string_view(whole).substr(begin.size());
  const size_t open = std::min(answer.find(tags.open), answer.size());
  return open > 0 && open < answer.size() && is_blank(answer.substr(0, open));
}

ToolFormat format_in(const std::string& text) {
  const auto has = [&](const char* part) { return text.find(part) != std::string::npos; };
  if (has(" to=functions.probe_f") && has("<|channel|>commentary")) return ToolFormat::messages;
  if (has("<|tool_call>call:probe_f{")) return ToolFormat::gemma4;
  if (has("<start_function_call>call:probe_f{")) return ToolFormat::function_gemma;
  if (has("[TOOL_CALLS]")) return ToolFormat::mistral;
  if (has("<|tool_call|>")) return ToolFormat::listed;
  if (has("<arg_key>key</arg_key>")) return ToolFormat::key_tags;
  if (has("<|tool_call_start|>")) return ToolFormat::python;
  if (has("<invoke name=\"probe_f\">")) return ToolFormat::minimax;
  if (has("<seed:tool_call>")) return ToolFormat::seed;
  if (has("<tool_call>") || has("<function=probe_f>")) return ToolFormat::tagged;
  if (has("{\"name\": \"probe_f\", \"parameters\"") || has("{\"name\":\"probe_f\",\"parameters\""))
    return ToolFormat::plain;
  return ToolFormat::none;
}

}  // namespace

OutputFormat find_output_format(const ChatTemplate* chat, const Tokenizer& tokenizer) {
  OutputFormat format;
  format.reasoning = find_reasoning_tags(tokenizer);
  if (chat) {
    const std::string call = rendered_call(*chat);
    format.tools = format_in(call);
    format.function_tags =
        format.tools == ToolFormat::tagged && call.find("<function=probe_f>") != std::string::npos;
    if (format.reasoning) format.reasoning->blanks_before = has_blanks_before(*chat, *format.reasoning);
  }
  if (format.tools != ToolFormat::none) return format;
  struct TokenFormat {
    const char* token;
    ToolFormat tools;
  };
  // A vocabulary with <start_of_turn> alone is that of Gemma 2 or 3, which write calls as the prompt demands.
  for (const TokenFormat& one : {TokenFormat{"<|tool_call>", ToolFormat::gemma4},
                                 {"<start_function_call>", ToolFormat::function_gemma},
                                 {"<|constrain|>", ToolFormat::messages},
                                 {"[TOOL_CALLS]", ToolFormat::mistral},
                                 {"<|tool_call|>", ToolFormat::listed},
                                 {"<arg_key>", ToolFormat::key_tags},
                                 {"<minimax:tool_call>", ToolFormat::minimax},
                                 {"<seed:tool_call>", ToolFormat::seed},
                                 {"<|tool_call_start|>", ToolFormat::python},
                                 {"<tool_call>", ToolFormat::tagged},
                                 {"<|python_tag|>", ToolFormat::plain},
                                 {"<start_of_turn>", ToolFormat::plain}})
    if (tokenizer.find(one.token)) {
      format.tools = one.tools;
      break;
    }
  return format;
}

std::vector<std::string_view> call_openers(ToolFormat format) {
  switch (format) {
    case ToolFormat::none:
      break;
    case ToolFormat::tagged:
      return {"<tool_call>", kFunctionOpen};
    case ToolFormat::plain:
      return {"<|python_tag|>"};
    case ToolFormat::mistral:
      return {"[TOOL_CALLS]"};
    case ToolFormat::listed:
      return {"<|tool_call|>"};
    case ToolFormat::gemma4:
      return {"<|tool_call>"};
    case ToolFormat::function_gemma:
      return {"<start_function_call>"};
    case ToolFormat::messages:
      return {kMessageCallOpen};
    case ToolFormat::key_tags:
      return {"<tool_call>"};
    case ToolFormat::minimax:
      return {"<minimax:tool_call>"};
    case ToolFormat::seed:
      return {"<seed:tool_call>"};
    case ToolFormat::python:
      return {"<|tool_call_start|>"};
  }
  return {};
}

bool calls_open_with_token(const OutputFormat& format, const Tokenizer& tokenizer) {
  if (format.tools == ToolFormat::none || format.tools == ToolFormat::plain) return false;
  return format.tools == ToolFormat::messages || tokenizer.find(call_openers(format.tools)[0]).has_value();
}

std::string_view call_closer(ToolFormat format, std::string_view opener) {
  if (format == ToolFormat::tagged) return opener == kFunctionOpen ? kFunctionClose : kCallClose;
  if (format == ToolFormat::python) return "<|tool_call_end|>";
  const PairTags* tags = pair_tags(format);
  if (!tags) return "";
  return tags->block_close.empty() ? tags->call_close : tags->block_close;
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
  if (format == ToolFormat::minimax) return &kMiniMax;
  if (format == ToolFormat::seed) return &kSeed;
  return format == ToolFormat::key_tags ? &kKeyTags : nullptr;
}

std::vector<int> mark_tokens(const OutputFormat& format, const Tokenizer& tokenizer) {
  std::vector<std::string_view> marks = call_openers(format.tools);
  for (const char* mark :
       {"</tool_call>", "<tool_response>", "</tool_response>", "[ARGS]", "[CALL_ID]", "<tool_call|>",
        "<|tool_response>", "<tool_response|>", "<end_function_call>", "<|\"|>", "<escape>",
        "<|tool_call_end|>", "<|tool_response_start|>", "<|tool_response_end|>"})
    marks.push_back(mark);
  if (format.reasoning && format.reasoning->are_messages())
    marks.insert(marks.end(), std::begin(kMessageMarks), std::end(kMessageMarks));
  if (const PairTags* tags = pair_tags(format.tools))
    for (const std::string_view mark : tags->marks()) marks.push_back(mark);
  if (format.reasoning)
    for (const std::string* tag :
         {&format.reasoning->open, &format.reasoning->close, &format.reasoning->open_token})
      marks.push_back(*tag);
  std::vector<int> tokens;
  for (const auto mark : marks)
    if (const auto id = tokenizer.find(mark); id && !mark.empty()) tokens.push_back(*id);
  return tokens;
}

}  // namespace anabranch
