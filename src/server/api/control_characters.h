// A check of names and paths that clients send.
#pragma once

#include <algorithm>
#include <string_view>

namespace anabranch::server {

inline bool has_control_characters(std::string_view text) {
  return std::ranges::any_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7F; });
}

}  // namespace anabranch::server
