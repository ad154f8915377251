// Integers that 64 bits cannot hold, in JSON for parsers that refuse them.
#pragma once

#include <string>
#include <string_view>

namespace anabranch {

// `json` with an exponent of zero behind each such integer, which makes it a floating-point number. All other
// bytes stay, whether they are JSON or not. Files have them: Transformers writes int(1e30) for a length that
// nobody stated.
std::string with_exponents_on_long_integers(std::string_view json);

}  // namespace anabranch
