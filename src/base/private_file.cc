#include "base/private_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace anabranch {

Result<void> make_private_file(const std::string& path) {
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  if (file < 0) return make_error(ErrorKind::io, "cannot open {}: {}", path, std::strerror(errno));
  struct stat info {};
  const bool ours =
      fstat(file, &info) == 0 && S_ISREG(info.st_mode) && (info.st_uid == geteuid() || geteuid() == 0);
  if (ours) fchmod(file, 0600);
  close(file);
  if (!ours) return make_error(ErrorKind::io, "{} is no file of this user's", path);
  return {};
}

Result<void> make_private_directory(const std::string& path) {
  std::error_code error;
  const std::filesystem::path directory(path);
  if (std::filesystem::is_directory(directory, error)) return {};
  if (directory.has_parent_path()) std::filesystem::create_directories(directory.parent_path(), error);
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return make_error(ErrorKind::io, "cannot create the directory {}: {}", path, std::strerror(errno));
  return {};
}

}  // namespace anabranch
