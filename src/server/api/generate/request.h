// Reads the JSON body of /v1/generate: token ids in, token ids out. docs/generate.md describes it.
#pragma once

#include <string_view>

#include "chat/chat_request.h"
#include "server/api/common_fields.h"
#include "server/http/api_error.h"

namespace anabranch::server {

// A text completion of one prompt of token ids. The field "request_id" is only checked: it is read before
// the rest (request_model.h).
ApiResult<CompletionRequest> parse_generate_request(std::string_view body, const RequestDefaults& defaults);

}  // namespace anabranch::server
