#include "base/private_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

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

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

int make_private_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0) return 0;
  if (errno == EEXIST) return 0;
  if (errno != ENOENT) return errno;
  const size_t slash = path.find_last_of('/');
  if (slash == path.npos || slash == 0) return ENOENT;
  if (const int error = make_private_directory(path.substr(0, slash))) return error;
  return ::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST ? 0 : errno;
}

}  // namespace anabranch
