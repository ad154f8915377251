// A file that appears under its name only when it is complete.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace anabranch {

// Writes all of `data` into the open file, `offset` bytes from its beginning. `path` is for the error: io.
Result<void> write_fully(int fd, const std::string& path, uint64_t offset, const void* data, uint64_t bytes);

class OutputFile {
 public:
  // Works in a new file beside `target`. `force` may replace a file that begins with `magic`. Errors: invalid
  // (`target` exists and not `force`, is the source, or is no file that begins so), io.
  static Result<std::unique_ptr<OutputFile>> make(const std::string& target, const std::string& source,
                                                  std::string_view magic, bool force);
  ~OutputFile();  // removes the file if it was not published
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  Result<void> write(uint64_t offset, const void* data, uint64_t bytes) {
    return write_fully(fd_, target_, offset, data, bytes);
  }
  Result<void> publish();

 private:
  OutputFile(std::string target, std::string work, int fd)
      : target_(std::move(target)), work_(std::move(work)), fd_(fd) {}
  std::string target_, work_;
  int fd_;
  bool published_ = false;
};

}  // namespace anabranch
