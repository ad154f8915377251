#include "output/output_format.h"

#include <algorithm>

#include "base/white_space.h"
#include "output/message_reader.h"

namespace anabranch {
namespace {

constexpr std::string_view kQuestion = "probe-question";

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
      Json::array({{{"role", "user"}, {"content", kQuestion}},
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

ToolFormat format_in(std::string_view text) {
  for (const BlockMarks& row : block_marks())
    if (!row.sign.empty() && text.find(row.sign) != text.npos) return row.format;
  return ToolFormat::none;
}

// The format in which a template writes calls. Its instructions, which stand before the question, may name
// other marks.
ToolFormat format_of_call(std::string_view rendered) {
  const size_t question = rendered.rfind(kQuestion);
  ToolFormat format = ToolFormat::none;
  if (question != rendered.npos) format = format_in(rendered.substr(question));
  return format == ToolFormat::none ? format_in(rendered) : format;
}

}  // namespace

OutputFormat find_output_format(const ChatTemplate* chat, const Tokenizer& tokenizer) {
  OutputFormat format;
  format.reasoning = find_reasoning_tags(tokenizer);
  if (chat) {
    const std::string call = rendered_call(*chat);
    format.tools = format_of_call(call);
    format.function_tags =
        format.tools == ToolFormat::tagged && call.find("<function=probe_f>") != std::string::npos;
    if (format.reasoning) format.reasoning->blanks_before = has_blanks_before(*chat, *format.reasoning);
  }
  if (format.tools != ToolFormat::none) return format;
  for (const BlockMarks& row : block_marks())
    if (!row.token.empty() && tokenizer.find(row.token)) {
      format.tools = row.format;
      break;
    }
  return format;
}

bool shows_tools(const ChatTemplate& chat) {
  constexpr const char* kName = "probe-7c1d";  // a text that no template writes by itself
  const Json parameters = {{"type", "object"}, {"properties", {{"key", {{"type", "string"}}}}}};
  const Json tools =
      Json::array({{{"type", "function"},
                    {"function", {{"name", kName}, {"description", "A"}, {"parameters", parameters}}}}});
  TemplateOptions options;
  options.now = 0;
  const Json user = {{"role", "user"}, {"content", "A"}}, system = {{"role", "system"}, {"content", "S"}};
  // Some templates list them only in a system message.
  for (const Json& messages : {Json::array({user}), Json::array({system, user})}) {
    const auto pieces = chat.render(messages, tools, options);
    if (pieces.ok() && join(*pieces).find(kName) != std::string::npos) return true;
  }
  return false;
}

bool calls_open_with_token(const OutputFormat& format, const Tokenizer& tokenizer) {
  if (format.tools == ToolFormat::none || format.tools == ToolFormat::plain) return false;
  return format.tools == ToolFormat::messages || tokenizer.find(call_openers(format.tools)[0]).has_value();
}

std::vector<int> mark_tokens(const OutputFormat& format, const Tokenizer& tokenizer) {
  std::vector<std::string_view> marks = call_openers(format.tools);
  marks.push_back(call_closer(format.tools));
  // A template that does not show tools gets calls between the first two.
  for (const char* mark :
       {"<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "[ARGS]", "[CALL_ID]",
        "<tool_call|>", "<|tool_response>", "<tool_response|>", "<end_function_call>", "<|\"|>", "<escape>",
        "<|tool_call_end|>", "<|tool_response_start|>", "<|tool_response_end|>", "<|START_TOOL_RESULT|>",
        "<|END_TOOL_RESULT|>"})
    marks.push_back(mark);
  if (format.reasoning && format.reasoning->are_messages())
    marks.insert(marks.end(), std::begin(kMessageMarks), std::end(kMessageMarks));
  for (const std::string_view mark : inner_tags(format.tools)) marks.push_back(mark);
  if (format.reasoning)
    for (const std::string* tag :
         {&format.reasoning->open, &format.reasoning->close, &format.reasoning->open_token})
      marks.push_back(*tag);
  std::vector<int> tokens;
  for (const auto mark : marks)
    if (const auto id = tokenizer.find(mark); id && !mark.empty()) tokens.push_back(*id);
  std::ranges::sort(tokens);
  tokens.erase(std::ranges::unique(tokens).begin(), tokens.end());
  return tokens;
}

}  // namespace anabranch
