// From where clients may have adapters loaded.
#pragma once

#include <string>
#include <vector>

#include "server/http/api_error.h"

namespace anabranch::server {

// The path of an adapter that a client names: itself, or below one of the directories. Follows no symlink out
// of them, also not to another part of a split file, and looks at nothing elsewhere. Errors: 400 (no path),
// 403 (not below a directory), 404.
ApiResult<std::string> allowed_adapter_path(const std::string& path,
                                            const std::vector<std::string>& directories);

}  // namespace anabranch::server
