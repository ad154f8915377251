// Prepares the requests of Ollama's /api/chat and /api/generate. See prepare().
#pragma once

#include <string_view>

#include "server/api/prepare.h"

namespace anabranch::server {

ApiResult<PreparedRequest> prepare_ollama(std::string_view body, bool generate,
                                          const PrepareContext& context);

}  // namespace anabranch::server
