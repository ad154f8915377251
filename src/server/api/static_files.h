// Files that are served as they are: part of the program, made by server/api/deps.cmake.
#pragma once

#include <string_view>

namespace anabranch::server {

extern const std::string_view kOpenApiJson;  // server/api/openapi.json

}  // namespace anabranch::server
