#include "server/http/api_error.h"

#include <fmt/format.h>

namespace anabranch::server {
namespace {

const char* error_type(int status) {
  if (status == 429) return "rate_limit_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

Json null_if_empty(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

}  // namespace

HttpResponse json_response(const Json& json) {
  HttpResponse response;
  response.body = dump_json(json);
  return response;
}

std::string error_json(const ApiError& error) {
  Json body = {{"message", error.message},
               {"type", error_type(error.status)},
               {"param", null_if_empty(error.param)},
               {"code", null_if_empty(error.code)}};
  if (error.context > 0) {  // llama-server's fields
    body["n_prompt_tokens"] = error.prompt_tokens;
    body["n_ctx"] = error.context;
  }
  // Messages may quote what the client sent: never throw on its bytes.
  return dump_json({{"error", std::move(body)}});
}

HttpResponse error_response(const ApiError& error) {
  HttpResponse response;
  response.status = error.status;
  response.body = error_json(error);
  if (error.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  const int soon_s = error.status == 429 ? 1 : error.status == 503 ? 5 : 0;
  if (soon_s > 0)
    response.headers.emplace_back("Retry-After",
                                  std::to_string(error.retry_after_s > 0 ? error.retry_after_s : soon_s));
  return response;
}

ApiError timeout_error(double allowed_s) {
  return {504, fmt::format("The request has not ended within {:.6g} seconds", allowed_s), "", "timeout"};
}

namespace {

std::pair<int, const char*> status_and_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid:
      return {400, "invalid_value"};
    case ErrorKind::unsupported:
      return {400, "unsupported_value"};
    case ErrorKind::exhausted:
      return {400, "limit_exceeded"};
    case ErrorKind::busy:
      return {429, "queue_full"};
    default:
      return {500, "internal_error"};
  }
}

}  // namespace

ApiError::ApiError(const Error& error) : message(error.message), param(error.field), code(error.code) {
  const auto [kind_status, kind_code] = status_and_code(error.kind);
  status = kind_status;
  if (code.empty()) code = kind_code;
  if (code == "context_length_exceeded") prompt_tokens = error.needed, context = error.limit;
}

}  // namespace anabranch::server
