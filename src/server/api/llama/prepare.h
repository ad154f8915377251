// Prepares the requests of llama-server's /completion and /infill. See prepare().
#pragma once

#include <string_view>

#include "server/api/prepare.h"

namespace anabranch::server {

ApiResult<PreparedRequest> prepare_llama(std::string_view body, bool infill, const PrepareContext& context);
// The answers to /tokenize and /detokenize.
ApiResult<PreparedRequest> prepare_tokens(std::string_view body, const PrepareContext& context);
ApiResult<PreparedRequest> prepare_detokenize(std::string_view body, const PrepareContext& context);

}  // namespace anabranch::server
