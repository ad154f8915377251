// Prepares the requests of /v1/messages and of /v1/messages/count_tokens (counting). See prepare().
#pragma once

#include <string_view>

#include "server/api/prepare.h"

namespace anabranch::server {

ApiResult<PreparedRequest> prepare_message(std::string_view body, bool counting,
                                           const PrepareContext& context);

}  // namespace anabranch::server
