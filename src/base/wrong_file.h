// What a file is that cannot be read as what its name says: a download often leaves something else there.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace anabranch {

// "; it is X: DO Y", from how the file begins; "": it is nothing that is known.
std::string what_it_is_instead(std::span<const std::byte> bytes);
std::string what_it_is_instead(std::string_view text);

}  // namespace anabranch
