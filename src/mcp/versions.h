// The versions of MCP that are spoken here.
#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>

namespace anabranch::mcp {

// Newest first. Later ones have no `initialize`; servers of theirs still answer it.
inline constexpr const char* kVersions[] = {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"};

inline bool is_known_version(std::string_view version) {
  return std::find(std::begin(kVersions), std::end(kVersions), version) != std::end(kVersions);
}

}  // namespace anabranch::mcp
