// Handles integers that do not fit in 64 bits, in JSON for parsers that refuse them.
#pragma once

#include <string>
#include <string_view>

namespace anabranch {

// Returns `json` with an exponent of zero after each such integer, which makes it a floating-point number.
// All other bytes are unchanged, even if they are not JSON. Such files exist: Transformers writes int(1e30)
// for a length that was not specified.
std::string with_exponents_on_long_integers(std::string_view json);

}  // namespace anabranch
