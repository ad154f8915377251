// The access log: one line with a JSON object for each request, without any text of prompts, answers or keys.
#pragma once

#include <string>

#include "server/http/types.h"

namespace anabranch::server {

// {"time" (RFC 3339, UTC), "request_id", "address", "key" (its name or null), "method", "path", "status"
// (null: no answer), "seconds", "cut_off", "session_id" if the request named one, and for answers "model",
// "prompt_tokens", "cached_tokens", "completion_tokens"}.
std::string access_line(const EndedRequest& request);

}  // namespace anabranch::server
