// Errors in the shape that OpenAI's clients understand: {"error": {message, type, param, code}}.
#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"
#include "server/http/types.h"

namespace anabranch::server {

struct ApiError {
  int status = 500;
  std::string message;
  std::string param;                      // the field at fault; empty = null
  std::string code;                       // empty = null
  size_t prompt_tokens = 0, context = 0;  // of a prompt that is too long, or 0
  int retry_after_s = 0;                  // of 429 and 503: when to try again; 0: soon
};

HttpResponse json_response(const Json& json);
std::string error_json(const ApiError& error);
// 429 and 503 carry Retry-After, 401 WWW-Authenticate.
HttpResponse error_response(const ApiError& error);
// 504: the request had so many seconds.
ApiError timeout_error(double allowed_s);
// Maps a failed internal call to a status: invalid, unsupported and exhausted to 400, busy to 429, all others
// to 500.
ApiError to_api_error(const Error& error);

}  // namespace anabranch::server
