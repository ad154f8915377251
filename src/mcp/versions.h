// The supported versions of MCP.
#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>

namespace anabranch::mcp {

// Newest first. Later versions have no `initialize`, but their servers still answer it.
inline constexpr const char* kVersions[] = {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"};

inline bool is_known_version(std::string_view version) {
  return std::find(std::begin(kVersions), std::end(kVersions), version) != std::end(kVersions);
}

}  // namespace anabranch::mcp
