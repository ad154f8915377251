// Base64: bytes as text of 64 letters (RFC 4648, section 4).
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace anabranch {

std::string to_base64(std::string_view bytes);
// Strict: no white space, padded to a multiple of 4, the unused bits of the last letter are 0. Error:
// invalid.
Result<std::string> from_base64(std::string_view text);

}  // namespace anabranch
