// Prepares the requests of chat and text completions. See prepare().
#pragma once

#include <string_view>

#include "server/api/prepare.h"

namespace anabranch::server {

ApiResult<PreparedRequest> prepare_completion(std::string_view body, const PrepareContext& context);
ApiResult<PreparedRequest> prepare_chat(std::string_view body, const PrepareContext& context);
// The prompt of a chat: its length, or the text that the chat template makes.
ApiResult<PreparedRequest> prepare_chat_count(std::string_view body, const PrepareContext& context);
ApiResult<PreparedRequest> prepare_template(std::string_view body, const PrepareContext& context);

}  // namespace anabranch::server
