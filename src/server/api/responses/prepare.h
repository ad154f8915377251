// Prepares the requests of /v1/responses, of its input_tokens (counting) and of its compact. See prepare().
#pragma once

#include <string_view>

#include "server/api/prepare.h"

namespace anabranch::server {

ApiResult<PreparedRequest> prepare_response(std::string_view body, bool counting,
                                            const PrepareContext& context);
ApiResult<PreparedRequest> prepare_compaction(std::string_view body, const PrepareContext& context);

}  // namespace anabranch::server
