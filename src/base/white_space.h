// White space as defined by markup: ASCII only.
#pragma once

#include <string_view>

namespace anabranch {

inline constexpr const char* kSpace = " \t\r\n";

inline bool is_space(char c) {
  return std::string_view(kSpace).find(c) != std::string_view::npos;
}

// Removes white space at both ends.
inline std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) + 1 - first);
}

// Whether the text has only white space; also true for an empty text.
inline bool is_blank(std::string_view text) {
  return text.find_first_not_of(kSpace) == std::string_view::npos;
}

}  // namespace anabranch
