#include "server/api/prepare.h"

#include "server/api/anthropic_request.h"

namespace anabranch::server {

ApiError to_api_error(const RequestError& error) {
  ApiError out = to_api_error(error.error);
  out.param = error.field;
  if (!error.code.empty()) out.code = error.code;
  return out;
}

std::variant<Prepared, ApiError> prepare(AnswerKind kind, std::string_view body,
                                         const RequestDefaults& defaults, Preparer& preparer,
                                         const std::function<bool()>& cancelled) {
  std::variant<Prepared, RequestError> result;
  if (kind == AnswerKind::completion) {
    auto request = parse_completion_request(body, defaults);
    if (auto* error = std::get_if<ApiError>(&request)) return std::move(*error);
    result = preparer.completion(std::get<CompletionRequest>(std::move(request)), cancelled);
  } else {
    const bool counting = kind == AnswerKind::token_count;
    auto request = kind == AnswerKind::chat ? parse_chat_request(body, defaults)
                                            : parse_messages_request(body, defaults, counting);
    if (auto* error = std::get_if<ApiError>(&request)) return std::move(*error);
    auto chat = std::get<ChatRequest>(std::move(request));
    result =
        counting ? preparer.count(std::move(chat), cancelled) : preparer.chat(std::move(chat), cancelled);
  }
  if (const auto* error = std::get_if<RequestError>(&result)) return to_api_error(*error);
  return std::get<Prepared>(std::move(result));
}

}  // namespace anabranch::server
