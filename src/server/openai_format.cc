#include "server/openai_format.h"

#include "server/speculation_json.h"

namespace anabranch::server {
namespace {

constexpr const char* kFingerprint = "anabranch-" ANABRANCH_VERSION;

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string event(const Json& json) {
  return "data: " + dump(json) + "\n\n";
}

Json envelope(const AnswerHead& head, const char* chat_object) {
  return {{"id", head.id},
          {"object", head.kind == AnswerKind::chat ? chat_object : "text_completion"},
          {"created", head.created},
          {"model", head.model},
          {"system_fingerprint", kFingerprint}};
}

// Clients read the reasoning under two names: DeepSeek's and OpenRouter's.
void put_reasoning(Json& into, const AnswerText& text) {
  if (text.reasoning.empty()) return;
  into["reasoning_content"] = text.reasoning;
  into["reasoning"] = text.reasoning;
}

Json usage_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
          {"completion_tokens_details", {{"reasoning_tokens", usage.thinking_tokens}}},
          {"speculation", speculation_json(usage.speculation)}};
}

// choice: its delta or text.
std::string chunk(const AnswerHead& head, Json choice, Json logprobs, Json finish) {
  Json json = envelope(head, "chat.completion.chunk");
  choice["index"] = 0;
  choice["logprobs"] = std::move(logprobs);
  choice["finish_reason"] = std::move(finish);
  json["choices"] = Json::array({std::move(choice)});
  if (head.usage_field) json["usage"] = nullptr;
  return event(json);
}

}  // namespace

std::string_view finish_name(FinishReason finish) {
  return finish == FinishReason::length ? "length" : "stop";
}

std::string whole_answer(const AnswerHead& head, const AnswerText& text, Json logprobs, FinishReason finish,
                         const Usage& usage) {
  Json choice = {{"index", 0}};
  if (head.kind == AnswerKind::chat) {
    Json message = {{"role", "assistant"}, {"content", text.content}};
    put_reasoning(message, text);
    choice["message"] = std::move(message);
  } else {
    choice["text"] = text.content;
  }
  choice["logprobs"] = std::move(logprobs);
  choice["finish_reason"] = finish_name(finish);
  Json json = envelope(head, "chat.completion");
  json["choices"] = Json::array({std::move(choice)});
  json["usage"] = usage_json(usage);
  return dump(json);
}

std::string first_chunk(const AnswerHead& head) {
  return chunk(head, {{"delta", {{"role", "assistant"}, {"content", ""}}}}, nullptr, nullptr);
}

std::string text_chunk(const AnswerHead& head, const AnswerText& delta, Json logprobs) {
  if (head.kind == AnswerKind::completion)
    return chunk(head, {{"text", delta.content}}, std::move(logprobs), nullptr);
  Json json = Json::object();
  if (!delta.content.empty()) json["content"] = delta.content;
  put_reasoning(json, delta);
  return chunk(head, {{"delta", std::move(json)}}, std::move(logprobs), nullptr);
}

std::string finish_chunk(const AnswerHead& head, Json logprobs, FinishReason finish) {
  Json choice = head.kind == AnswerKind::chat ? Json{{"delta", Json::object()}} : Json{{"text", ""}};
  return chunk(head, std::move(choice), std::move(logprobs), finish_name(finish));
}

std::string usage_chunk(const AnswerHead& head, const Usage& usage) {
  Json json = envelope(head, "chat.completion.chunk");
  json["choices"] = Json::array();
  json["usage"] = usage_json(usage);
  return event(json);
}

}  // namespace anabranch::server
