// Files that hold a person's text: readable by their owner only.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace anabranch {

// Creates the file if it is missing, and sets its mode to 0600. Errors: io (it cannot be opened, is not a
// regular file, is a symbolic link, or belongs to another user).
Result<void> make_private_file(const std::string& path);

// Writes all bytes. False: it failed, and errno says why.
bool write_all(int fd, std::string_view bytes);

// Creates a directory for the owner only, and its missing parents. An existing directory is not changed.
// Returns 0 or errno.
int make_private_directory(const std::string& path);

}  // namespace anabranch
