// Files that hold a person's text: readable by their owner only.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace anabranch {

// Creates the file if it is missing, and gives it mode 0600. Errors: io (it cannot be opened, is no regular
// file, is a symbolic link, or belongs to another user).
Result<void> make_private_file(const std::string& path);

// Writes all bytes. False: it failed, and errno says why.
bool write_all(int fd, std::string_view bytes);

// Makes a directory of the owner's own, and those above it that are missing. One that exists is left as it
// is. Returns 0 or errno.
int make_private_directory(const std::string& path);

}  // namespace anabranch
