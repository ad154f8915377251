// Files that hold a person's text: readable by their owner only.
#pragma once

#include <string>

#include "base/result.h"

namespace anabranch {

// Creates the file if it is missing, and gives it mode 0600. Errors: io (it cannot be opened, is no regular
// file, is a symbolic link, or belongs to another user).
Result<void> make_private_file(const std::string& path);

// Creates the directory and those above it. A new one has mode 0700; one that exists is left as it is.
// Errors: io.
Result<void> make_private_directory(const std::string& path);

}  // namespace anabranch
