// Prepares the requests of /v1/generate. See prepare().
#pragma once

#include <string_view>

#include "server/api/prepare.h"

namespace anabranch::server {

ApiResult<PreparedRequest> prepare_generate(std::string_view body, const PrepareContext& context);

}  // namespace anabranch::server
