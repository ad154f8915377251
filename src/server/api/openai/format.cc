#include "server/api/openai/format.h"

#include "chat/speculation_json.h"
#include "server/api/timings_json.h"

namespace anabranch::server {
namespace {

using Kind = OutputEvent::Kind;

constexpr const char* kFingerprint = "anabranch-" ANABRANCH_VERSION;

Json usage_json(const Usage& usage) {
  Json json = {{"prompt_tokens", usage.prompt_tokens},
               {"completion_tokens", usage.completion_tokens},
               {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
               {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
               {"completion_tokens_details", {{"reasoning_tokens", usage.thinking_tokens}}},
               {"speculation", speculation_json(usage.speculation)}};
  if (usage.grammar_tokens > 0)
    json["grammar"] = {{"tokens", usage.grammar_tokens},
                       {"us_per_token", usage.grammar_s * 1e6 / usage.grammar_tokens}};
  return json;
}

}  // namespace

Json OpenAiWriter::whole_calls(const Choice& choice) const {
  Json list = Json::array();
  for (size_t i = 0; i < choice.output.calls.size(); ++i) {
    const auto& [name, arguments] = choice.output.calls[i];
    if (custom_.contains(name))
      list.push_back({{"id", choice.call_ids[i]},
                      {"type", "custom"},
                      {"custom", {{"name", name}, {"input", custom_input(arguments)}}}});
    else
      list.push_back({{"id", choice.call_ids[i]},
                      {"type", "function"},
                      {"function", {{"name", name}, {"arguments", arguments}}}});
  }
  return list;
}

// A chat chunk's delta; nothing: the event is not sent. The input of a custom tool is sent when it is
// complete.
std::optional<Json> OpenAiWriter::delta_of(Choice& choice, const OutputEvent& event,
                                           const std::string& call_id) const {
  if (event.kind == Kind::content) return Json{{"content", event.text}};
  if (event.kind == Kind::reasoning) return Json{{"reasoning_content", event.text}};
  Json call = {{"index", event.call}};
  if (event.kind == Kind::call_begin) {
    const bool custom = custom_.contains(event.text);
    if (custom) choice.custom_call = "";
    call["id"] = call_id;
    call["type"] = custom ? "custom" : "function";
    call[custom ? "custom" : "function"] = {{"name", event.text}, {custom ? "input" : "arguments", ""}};
  } else if (event.kind == Kind::call_arguments && choice.custom_call) {
    *choice.custom_call += event.text;
    return std::nullopt;
  } else if (event.kind == Kind::call_arguments) {
    call["function"] = {{"arguments", event.text}};
  } else if (choice.custom_call) {
    call["custom"] = {{"input", custom_input(*std::exchange(choice.custom_call, std::nullopt))}};
  } else {
    return std::nullopt;
  }
  return Json{{"tool_calls", Json::array({std::move(call)})}};
}

Json OpenAiWriter::envelope(const char* chat_object) const {
  return {{"id", head_.id},
          {"object", is_chat() ? chat_object : "text_completion"},
          {"created", head_.created},
          {"model", head_.model},
          {"system_fingerprint", kFingerprint}};
}

// choice: its delta or text.
Json OpenAiWriter::chunk(size_t index, Json choice, Json logprobs, Json finish) const {
  Json json = envelope("chat.completion.chunk");
  choice["index"] = index;
  choice["logprobs"] = std::move(logprobs);
  choice["finish_reason"] = std::move(finish);
  json["choices"] = Json::array({std::move(choice)});
  if (include_usage_) json["usage"] = nullptr;
  return json;
}

// A chat's first chunk of each choice names the role.
std::string OpenAiWriter::begin(AnswerHead head, size_t choices) {
  head_ = std::move(head);
  choices_.resize(choices);
  std::string out;
  if (is_stream() && is_chat())
    for (size_t i = 0; i < choices; ++i)
      out += data_event(chunk(i, {{"delta", {{"role", "assistant"}, {"content", ""}}}}, nullptr, nullptr));
  return out;
}

std::string OpenAiWriter::prefilled(size_t, const Usage& usage, int read, double seconds) {
  Json json = envelope("chat.completion.chunk");
  json["choices"] = Json::array();
  json["prompt_progress"] = progress_json(usage, read, seconds);
  return data_event(json);
}

std::string OpenAiWriter::event(size_t choice, const OutputEvent& event, const std::string& call_id,
                                const TakeLogprobs& logprobs) {
  if (!is_stream()) {
    choices_[choice].output.add(event);
    if (event.kind == Kind::call_begin) choices_[choice].call_ids.push_back(call_id);
    return "";
  }
  if (!is_chat()) return data_event(chunk(choice, {{"text", event.text}}, logprobs(), nullptr));
  auto delta = delta_of(choices_[choice], event, call_id);
  if (!delta) return "";
  return data_event(chunk(choice, {{"delta", std::move(*delta)}}, logprobs(), nullptr));
}

std::string OpenAiWriter::choice_finished(size_t choice, const AnswerEnd& end, const TakeLogprobs& logprobs) {
  if (!is_stream()) {
    choices_[choice].logprobs = logprobs();
    return "";
  }
  Json last = is_chat() ? Json{{"delta", Json::object()}} : Json{{"text", ""}};
  Json json = chunk(choice, std::move(last), logprobs(), finish_name(end.finish, end.calls));
  json["timings"] = timings_json(end.usage);
  json["anabranch"] = extension(head_, end.usage);
  return data_event(json);
}

Json OpenAiWriter::whole_choice(size_t index, const AnswerEnd& end) {
  Choice& whole = choices_[index];
  const ParsedOutput& output = whole.output;
  Json choice = {{"index", index}};
  if (is_chat()) {
    Json message = {{"role", "assistant"}, {"content", output.content}, {"refusal", nullptr}};
    if (!output.reasoning.empty()) message["reasoning_content"] = output.reasoning;
    if (!output.calls.empty()) {
      if (output.content.empty()) message["content"] = nullptr;
      message["tool_calls"] = whole_calls(whole);
    }
    choice["message"] = std::move(message);
  } else {
    choice["text"] = output.content;
  }
  choice["logprobs"] = std::move(whole.logprobs);
  choice["finish_reason"] = finish_name(end.finish, end.calls);
  return choice;
}

std::string OpenAiWriter::finish(const std::vector<AnswerEnd>& ends, const Usage& total) {
  if (is_stream()) {
    if (!include_usage_) return std::string(kDoneEvent);
    Json json = envelope("chat.completion.chunk");
    json["choices"] = Json::array();
    json["usage"] = usage_json(total);
    return data_event(json) + std::string(kDoneEvent);
  }
  Json json = envelope("chat.completion");
  Json list = Json::array(), cuts = Json::array();
  for (size_t i = 0; i < ends.size(); ++i) {
    list.push_back(whole_choice(i, ends[i]));
    cuts.push_back(extension(head_, ends[i].usage)["cut"]);
  }
  json["choices"] = std::move(list);
  json["usage"] = usage_json(total);
  json["timings"] = timings_json(ends.size() == 1 ? ends[0].usage : total);
  json["anabranch"] = extension(head_, total);
  if (ends.size() > 1) json["anabranch"]["cut"] = std::move(cuts);
  if (!head_.transfer.is_null()) json["kv_transfer_params"] = head_.transfer;
  return dump_json(json);
}

std::string OpenAiWriter::failure(const ApiError& error) {
  return "data: " + error_json(error) + "\n\n";
}

}  // namespace anabranch::server
