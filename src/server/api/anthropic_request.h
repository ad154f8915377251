// The JSON bodies of /v1/messages and /v1/messages/count_tokens, as what /v1/chat/completions takes: the
// messages, tools and thinking of Anthropic's API become those of a chat. What is not built is refused by
// name; fields that we do not know are ignored.
#pragma once

#include "server/api/api_request.h"

namespace anabranch::server {

// counting: of a body for count_tokens, which needs no "max_tokens".
std::variant<ChatRequest, ApiError> parse_messages_request(std::string_view body,
                                                           const RequestDefaults& defaults, bool counting);

}  // namespace anabranch::server
