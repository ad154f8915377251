#include "cli/pid_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/json.h"
#include "base/user_directory.h"

namespace anabranch::cli {
namespace {

constexpr size_t kMaxBytes = 64 << 10;

Result<std::string> usual_file(int port, const char* suffix) {
  const std::string directory = user_state_directory();
  if (directory.empty())
    return make_error(ErrorKind::not_found,
                      "neither $XDG_STATE_HOME nor $HOME holds an absolute path: name a --pid-file and, for "
                      "serve, a --log-file");
  return fmt::format("{}/serve-{}.{}", directory, port, suffix);
}

Error system_error(const char* what, const std::string& path) {
  return make_error(ErrorKind::io, "cannot {} '{}': {}", what, path, std::strerror(errno));
}

struct flock whole_file() {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

// The process that holds the lock on the file; 0: none.
Result<pid_t> holder_of(int file, const std::string& path) {
  struct flock lock = whole_file();
  if (::fcntl(file, F_GETLK, &lock) != 0) return system_error("query the lock of", path);
  return lock.l_type == F_UNLCK ? 0 : lock.l_pid;
}

// Whether the open file is still at this path: another process may have replaced it since it was opened.
bool is_still_at(int file, const std::string& path) {
  struct stat opened {
  }, named{};
  return ::fstat(file, &opened) == 0 && ::stat(path.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
         opened.st_dev == named.st_dev;
}

std::string contents_of(int file) {
  std::string text(kMaxBytes, '\0');
  const ssize_t size = ::pread(file, text.data(), text.size(), 0);
  text.resize(size > 0 ? static_cast<size_t>(size) : 0);
  return text;
}

ServerRecord parse_record(const std::string& text) {
  ServerRecord record;
  const size_t end = text.find('\n');
  if (end == text.npos) return record;
  const auto json = parse_json(std::string_view(text).substr(end + 1));
  if (!json || !json->is_object()) return record;
  record.model = string_at(*json, "model");
  record.address = string_at(*json, "address");
  record.log = string_at(*json, "log");
  record.version = string_at(*json, "version");
  const auto number_at = [&](const char* key) {
    return json->contains(key) && (*json)[key].is_number() ? (*json)[key].get<double>() : 0.0;
  };
  record.drain_seconds = number_at("drain_seconds");
  record.started = static_cast<int64_t>(number_at("started"));
  return record;
}

}  // namespace

Result<std::string> usual_pid_file(int port) {
  return usual_file(port, "pid");
}
Result<std::string> usual_log_file(int port) {
  return usual_file(port, "log");
}

Result<PidFile> PidFile::take(const std::string& path) {
  while (true) {
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY, 0644);
    if (file < 0) return system_error("write the pid file", path);
    PidFile taken("", file);  // closes the file
    struct flock lock = whole_file();
    if (::fcntl(file, F_SETLK, &lock) != 0) {
      if (errno != EACCES && errno != EAGAIN) return system_error("lock the pid file", path);
      TRY(const pid_t holder, holder_of(file, path));
      if (holder == 0) continue;  // the other server has just ended
      return make_error(ErrorKind::busy,
                        "process {} serves already, as '{}' tells: `anabranch stop` ends it; or choose "
                        "another --port or --pid-file",
                        holder, path);
    }
    if (!is_still_at(file, path)) continue;
    taken.path_ = path;
    TRY_VOID(taken.write({.pid = ::getpid()}));
    return taken;
  }
}

PidFile::PidFile(PidFile&& other) noexcept
    : path_(std::exchange(other.path_, {})), file_(std::exchange(other.file_, -1)) {}

PidFile::~PidFile() {
  if (file_ < 0) return;
  if (!path_.empty() && is_still_at(file_, path_)) ::unlink(path_.c_str());
  ::close(file_);
}

Result<void> PidFile::write(const ServerRecord& record) {
  const Json json = {{"model", record.model},     {"address", record.address},
                     {"log", record.log},         {"version", record.version},
                     {"started", record.started}, {"drain_seconds", record.drain_seconds}};
  const auto text = fmt::format("{}\n{}\n", record.pid, dump_json(json));
  if (::ftruncate(file_, 0) != 0 ||
      ::pwrite(file_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
    return system_error("write the pid file", path_);
  return {};
}

Result<std::optional<ServerRecord>> find_server(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (file < 0 && (errno == ENOENT || errno == ENOTDIR)) return std::optional<ServerRecord>();
  if (file < 0) return system_error("read the pid file", path);
  const auto holder = holder_of(file, path);
  ServerRecord record = parse_record(contents_of(file));
  ::close(file);
  if (!holder) return holder.error();
  if (*holder == 0) return std::optional<ServerRecord>();
  record.pid = *holder;
  return std::optional(std::move(record));
}

}  // namespace anabranch::cli
