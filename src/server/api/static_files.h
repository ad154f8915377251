// Files that are served unchanged. They are part of the program; server/api/deps.cmake embeds them.
#pragma once

#include <string_view>

namespace anabranch::server {

extern const std::string_view kOpenApiJson;  // server/api/openapi.json

}  // namespace anabranch::server
