#include "server/api/openai_format.h"

#include "chat/speculation_json.h"

namespace anabranch::server {
namespace {

constexpr const char* kFingerprint = "anabranch-" ANABRANCH_VERSION;

std::string event(const Json& json) {
  return "data: " + dump_json(json) + "\n\n";
}

Json envelope(const AnswerHead& head, const char* chat_object) {
  return {{"id", head.id},
          {"object", head.kind == AnswerKind::chat ? chat_object : "text_completion"},
          {"created", head.created},
          {"model", head.model},
          {"system_fingerprint", kFingerprint}};
}

Json whole_calls(const std::vector<ToolCall>& calls, const std::vector<std::string>& ids) {
  Json list = Json::array();
  for (size_t i = 0; i < calls.size(); ++i)
    list.push_back({{"id", ids[i]},
                    {"type", "function"},
                    {"function", {{"name", calls[i].name}, {"arguments", calls[i].arguments}}}});
  return list;
}

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

// choice: its delta or text.
Json chunk_json(const AnswerHead& head, int index, Json choice, Json logprobs, Json finish) {
  Json json = envelope(head, "chat.completion.chunk");
  choice["index"] = index;
  choice["logprobs"] = std::move(logprobs);
  choice["finish_reason"] = std::move(finish);
  json["choices"] = Json::array({std::move(choice)});
  if (head.usage_field) json["usage"] = nullptr;
  return json;
}

std::string chunk(const AnswerHead& head, int index, Json choice, Json logprobs, Json finish) {
  return event(chunk_json(head, index, std::move(choice), std::move(logprobs), std::move(finish)));
}

Json cut_json(const std::string& cut) {
  return cut.empty() ? Json(nullptr) : Json(cut);
}

Json choice_json(const AnswerHead& head, int index, WholeChoice& whole) {
  const ParsedOutput& output = whole.output;
  Json choice = {{"index", index}};
  if (head.kind == AnswerKind::chat) {
    Json message = {{"role", "assistant"}, {"content", output.content}, {"refusal", nullptr}};
    if (!output.reasoning.empty()) message["reasoning_content"] = output.reasoning;
    if (!output.calls.empty()) {
      if (output.content.empty()) message["content"] = nullptr;
      message["tool_calls"] = whole_calls(output.calls, whole.call_ids);
    }
    choice["message"] = std::move(message);
  } else {
    choice["text"] = output.content;
  }
  choice["logprobs"] = std::move(whole.logprobs);
  choice["finish_reason"] = finish_name(whole.finish, static_cast<int>(output.calls.size()));
  return choice;
}

}  // namespace

Json extension(const AnswerHead& head, const Usage& usage) {
  Json json = Json::object();
  if (head.thinking)
    json["thinking"] = {{"enabled", head.thinking->enabled}, {"reason", head.thinking->reason}};
  json["cut"] = cut_json(usage.cut);
  return json;
}

std::string_view finish_name(FinishReason finish, int calls) {
  if (finish == FinishReason::length) return "length";
  return calls > 0 ? "tool_calls" : "stop";
}

std::string whole_answer(const AnswerHead& head, std::vector<WholeChoice> choices, const Usage& usage) {
  Json json = envelope(head, "chat.completion");
  Json list = Json::array(), cuts = Json::array();
  for (size_t i = 0; i < choices.size(); ++i) {
    list.push_back(choice_json(head, static_cast<int>(i), choices[i]));
    cuts.push_back(cut_json(choices[i].cut));
  }
  json["choices"] = std::move(list);
  json["usage"] = usage_json(usage);
  json["anabranch"] = extension(head, usage);
  json["anabranch"]["cut"] = choices.size() == 1 ? cuts[0] : std::move(cuts);
  return dump_json(json);
}

std::string first_chunk(const AnswerHead& head, int choice) {
  return chunk(head, choice, {{"delta", {{"role", "assistant"}, {"content", ""}}}}, nullptr, nullptr);
}

std::string event_chunk(const AnswerHead& head, int choice, const OutputEvent& event,
                        const std::string& call_id, Json logprobs) {
  if (head.kind == AnswerKind::completion)
    return chunk(head, choice, {{"text", event.text}}, std::move(logprobs), nullptr);
  using Kind = OutputEvent::Kind;
  Json delta = Json::object();
  Json call = {{"index", event.call}};
  switch (event.kind) {
    case Kind::content:
      delta["content"] = event.text;
      break;
    case Kind::reasoning:
      delta["reasoning_content"] = event.text;
      break;
    case Kind::call_begin:
      call["id"] = call_id;
      call["type"] = "function";
      call["function"] = {{"name", event.text}, {"arguments", ""}};
      break;
    case Kind::call_arguments:
      call["function"] = {{"arguments", event.text}};
      break;
    case Kind::call_end:
      break;
  }
  if (event.call >= 0) delta["tool_calls"] = Json::array({std::move(call)});
  return chunk(head, choice, {{"delta", std::move(delta)}}, std::move(logprobs), nullptr);
}

std::string finish_chunk(const AnswerHead& head, int choice, Json logprobs, FinishReason finish, int calls,
                         const Usage& usage) {
  Json last = head.kind == AnswerKind::chat ? Json{{"delta", Json::object()}} : Json{{"text", ""}};
  Json json = chunk_json(head, choice, std::move(last), std::move(logprobs), finish_name(finish, calls));
  json["anabranch"] = extension(head, usage);
  return event(json);
}

std::string usage_chunk(const AnswerHead& head, const Usage& usage) {
  Json json = envelope(head, "chat.completion.chunk");
  json["choices"] = Json::array();
  json["usage"] = usage_json(usage);
  return event(json);
}

}  // namespace anabranch::server
