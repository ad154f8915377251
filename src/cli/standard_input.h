// Reads standard input from a pipe or a file, which may be endless.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "base/result.h"

namespace anabranch::cli {

// Reads all of it. Errors: exhausted (more than most_bytes; reading stops there).
Result<std::string> read_standard_input(size_t most_bytes);
// Reads the next line, without its line feed; nothing at the end of input. Errors: as above.
Result<std::optional<std::string>> read_standard_line(size_t most_bytes);

}  // namespace anabranch::cli
