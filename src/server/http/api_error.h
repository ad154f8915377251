// Errors in the format that OpenAI's clients understand: {"error": {message, type, param, code}}.
#pragma once

#include <string>
#include <utility>

#include "base/json.h"
#include "base/result.h"
#include "server/http/types.h"

namespace anabranch::server {

struct ApiError {
  ApiError() = default;
  ApiError(int status, std::string message, std::string param = "", std::string code = "")
      : status(status), message(std::move(message)), param(std::move(param)), code(std::move(code)) {}
  // For a failed internal call: invalid, unsupported and exhausted give 400, busy gives 429, all others give
  // 500.
  ApiError(const Error& error);

  int status = 500;
  std::string message;
  std::string param;                      // the field at fault; empty = null
  std::string code;                       // empty = null
  size_t prompt_tokens = 0, context = 0;  // of a prompt that is too long, or 0
  int retry_after_s = 0;                  // of 429 and 503: when to try again; 0: soon
};
template <class T>
using ApiResult = Result<T, ApiError>;

HttpResponse json_response(const Json& json);
std::string error_json(const ApiError& error);
// 429 and 503 carry Retry-After, 401 WWW-Authenticate.
HttpResponse error_response(const ApiError& error);
// 504. allowed_s: the time limit of the request in seconds.
ApiError timeout_error(double allowed_s);

}  // namespace anabranch::server
