// Lower case of ASCII letters, independent of the locale.
#pragma once

#include <string>
#include <string_view>

namespace anabranch {

// A to Z become a to z; every other byte is unchanged.
std::string lower_case(std::string_view text);

}  // namespace anabranch
