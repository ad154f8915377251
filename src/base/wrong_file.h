// Finds out what a file really is when it does not match its name: a download may have stored a web page, for
// example.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace anabranch {

// "; it is X: DO Y", judged by the file's first bytes; "": unknown.
std::string what_it_is_instead(std::span<const std::byte> bytes);
std::string what_it_is_instead(std::string_view text);

}  // namespace anabranch
