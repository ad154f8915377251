#include "checkpoint/output_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/part_name.h"

namespace anabranch {

namespace fs = std::filesystem;

namespace {

bool begins_with(const fs::path& path, std::string_view magic) {
  std::error_code code;
  if (!fs::is_regular_file(path, code)) return false;
  std::string first(magic.size(), '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(first.data(), static_cast<std::streamsize>(first.size()));
  return file.good() && first == magic;
}

}  // namespace

Result<void> write_fully(int fd, const std::string& path, uint64_t offset, const void* data, uint64_t bytes) {
  const char* from = static_cast<const char*>(data);
  for (uint64_t done = 0; done < bytes;) {
    const ssize_t n = ::pwrite(fd, from + done, bytes - done, static_cast<off_t>(offset + done));
    if (n > 0)
      done += static_cast<uint64_t>(n);
    else if (n == 0 || errno != EINTR)
      return make_error(ErrorKind::io, "cannot write {}: {}", path, std::strerror(n == 0 ? ENOSPC : errno));
  }
  return {};
}

Result<std::unique_ptr<OutputFile>> OutputFile::make(const std::string& target, const std::string& source,
                                                     std::string_view magic, bool force) {
  if (target.empty()) return make_error(ErrorKind::invalid, "no output file is given");
  std::error_code code;
  const fs::path path = fs::absolute(target, code).lexically_normal();
  if (!path.has_filename() || fs::is_directory(path, code))
    return make_error(ErrorKind::invalid, "{} is a directory: name the file to write", target);
  if (fs::exists(fs::symlink_status(path, code))) {
    for (const std::string& part : paths_of_parts(source))
      if (fs::equivalent(path, part, code))
        return make_error(ErrorKind::invalid, "{} is the source itself{}: write to another file", target,
                          part == source ? "" : ", a part of it");
    if (!force) return make_error(ErrorKind::invalid, "{} exists already; --force replaces it", target);
    if (fs::is_symlink(path, code) || !begins_with(path, magic))
      return make_error(ErrorKind::invalid, "{} is not a {} file: it is not replaced", target, magic);
  }
  fs::create_directories(path.parent_path(), code);
  std::string work = path.string() + ".partial-XXXXXX";
  const int fd = ::mkstemp(work.data());
  if (fd < 0)
    return make_error(ErrorKind::io, "cannot write to {}: {}; choose another output",
                      path.parent_path().string(), std::strerror(errno));
  ::fchmod(fd, 0644);
  return std::unique_ptr<OutputFile>(new OutputFile(path.string(), work, fd));
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!published_) ::unlink(work_.c_str());
}

Result<void> OutputFile::publish() {
  const int closed = ::close(fd_);
  fd_ = -1;
  if (closed != 0) return make_error(ErrorKind::io, "cannot write {}: {}", target_, std::strerror(errno));
  if (::rename(work_.c_str(), target_.c_str()) != 0)
    return make_error(ErrorKind::io, "cannot rename {} to {}: {}", work_, target_, std::strerror(errno));
  published_ = true;
  return {};
}

}  // namespace anabranch
