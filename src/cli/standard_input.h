// What comes through a pipe or from a file given as standard input, which may have no end.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "base/result.h"

namespace anabranch::cli {

// All of it. Errors: exhausted (more than so many bytes, of which no more are read).
Result<std::string> read_standard_input(size_t most_bytes);
// The next line, without its end; none at the end of input. Errors: as above.
Result<std::optional<std::string>> read_standard_line(size_t most_bytes);

}  // namespace anabranch::cli
