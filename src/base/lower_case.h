// Letters of ASCII, whatever the locale says.
#pragma once

#include <string>
#include <string_view>

namespace anabranch {

// A to Z become a to z; every other byte is unchanged.
std::string lower_case(std::string_view text);

}  // namespace anabranch
