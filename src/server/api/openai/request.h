// Reads the JSON bodies of /v1/chat/completions and /v1/completions and checks every field. Features that are
// not supported are refused by name; unknown fields are ignored, as OpenAI ignores them.
#pragma once

#include <string_view>

#include "chat/chat_request.h"
#include "server/api/chat_tools.h"
#include "server/api/common_fields.h"

namespace anabranch::server {

// custom: see read_chat_tools().
ApiResult<ChatRequest> parse_chat_request(std::string_view body, const RequestDefaults& defaults,
                                          CustomTools* custom = nullptr);
ApiResult<CompletionRequest> parse_completion_request(std::string_view body, const RequestDefaults& defaults);
// The same for a parsed body, which must be an object.
ApiResult<ChatRequest> read_chat_request(const Json& body, const RequestDefaults& defaults,
                                         CustomTools* custom = nullptr);
ApiResult<CompletionRequest> read_completion_request(const Json& body, const RequestDefaults& defaults);

}  // namespace anabranch::server
