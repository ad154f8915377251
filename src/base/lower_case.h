// Letters of ASCII, whatever the locale says.
#pragma once

#include <string>
#include <string_view>

namespace anabranch {

// With a to z for A to Z; every other byte stays.
std::string lower_case(std::string_view text);

}  // namespace anabranch
