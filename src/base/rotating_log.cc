#include "base/rotating_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/log.h"

namespace anabranch {
namespace {

constexpr int kOldFiles = 5;

// NAME.2.EXT
std::filesystem::path numbered(const std::filesystem::path& path, int number) {
  return path.parent_path() / fmt::format("{}.{}{}", path.stem().string(), number, path.extension().string());
}

}  // namespace

Result<std::unique_ptr<RotatingLog>> RotatingLog::open(const std::string& path, size_t bytes) {
  std::unique_ptr<RotatingLog> log(new RotatingLog(path, bytes));
  TRY_VOID(log->open_file());
  return log;
}

RotatingLog::~RotatingLog() {
  if (file_ >= 0) ::close(file_);
}

Result<void> RotatingLog::open_file() {
  const int file = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0600);
  struct stat about {};
  if (file < 0 || ::fstat(file, &about) != 0) {
    const int error = errno;
    if (file >= 0) ::close(file);
    return make_error(ErrorKind::io, "cannot write '{}': {}", path_, std::strerror(error));
  }
  if (file_ >= 0) ::close(file_);
  file_ = file;
  size_ = static_cast<size_t>(about.st_size);
  return {};
}

Result<void> RotatingLog::reopen() {
  std::lock_guard lock(mutex_);
  return open_file();
}

// If a file cannot be moved or created, the current file continues to grow.
void RotatingLog::rotate() {
  std::error_code error;
  for (int number = kOldFiles - 1; number >= 0; number--) {
    const auto from = number > 0 ? numbered(path_, number) : std::filesystem::path(path_);
    if (std::filesystem::exists(from, error))
      std::filesystem::rename(from, numbered(path_, number + 1), error);
    if (error) break;
  }
  const auto opened = error ? make_error(ErrorKind::io, "{}", error.message()) : open_file();
  if (opened) return;
  log_error("'{}' cannot be begun anew: {}", path_, opened.error().message);
  size_ = 0;  // try again after as many bytes
}

void RotatingLog::write(std::string_view line) {
  const std::string text = std::string(line) + "\n";
  std::lock_guard lock(mutex_);
  if (size_ > 0 && size_ + text.size() > bytes_) rotate();
  const ssize_t written = ::write(file_, text.data(), text.size());
  if (written > 0) size_ += static_cast<size_t>(written);
}

}  // namespace anabranch
