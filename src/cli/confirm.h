// Questions before something is removed.
#pragma once

#include <string>

#include "base/result.h"

namespace anabranch::cli {

// Asks on the terminal; yes is "y". Error: invalid (there is no terminal).
Result<bool> confirmed(const std::string& question);

}  // namespace anabranch::cli
