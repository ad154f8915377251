// The file by which `stop` and `status` find a server: its first line is the process id, the second a JSON
// object with the rest. The server holds a lock on it as long as it lives. So a file left behind by a server
// that has ended is recognized, even if another process has its process id now.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"

namespace anabranch::cli {

struct ServerRecord {
  pid_t pid = 0;
  // Empty until the server listens.
  std::string model, address, log, version;
  double drain_seconds = 0;
  int64_t started = 0;  // Unix seconds
};

// serve-PORT.pid and serve-PORT.log in the user's state directory. Error: not_found (there is no such
// directory).
Result<std::string> usual_pid_file(int port);
Result<std::string> usual_log_file(int port);

// The pid file while the server runs: owns the file and its lock.
class PidFile {
 public:
  // Makes the file. Errors: busy (a server holds it), io.
  static Result<PidFile> take(const std::string& path);
  PidFile(PidFile&& other) noexcept;
  PidFile& operator=(PidFile&&) = delete;
  ~PidFile();  // removes the file

  Result<void> write(const ServerRecord& record);

 private:
  PidFile(std::string path, int file) : path_(std::move(path)), file_(file) {}
  std::string path_;
  int file_;
};

// The server that holds the file; nothing if there is none. Error: io.
Result<std::optional<ServerRecord>> find_server(const std::string& path);

}  // namespace anabranch::cli
