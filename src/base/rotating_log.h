// A file of lines that is renamed when it is full, and started again.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/result.h"

namespace anabranch {

// Any thread may write. Lines that cannot be written, for example because the disk is full, are lost.
class RotatingLog {
 public:
  // Appends to `path`, which is created for its owner only; its folder must exist. Before it exceeds `bytes`,
  // it is renamed to NAME.1.EXT, and so on to NAME.5.EXT, which is deleted. Errors: io.
  static Result<std::unique_ptr<RotatingLog>> open(const std::string& path, size_t bytes);
  ~RotatingLog();
  RotatingLog(const RotatingLog&) = delete;
  RotatingLog& operator=(const RotatingLog&) = delete;

  // Appends a line immediately.
  void write(std::string_view line);
  // Opens the path again, in case it was moved away. Errors: io (the old file stays open).
  Result<void> reopen();

 private:
  RotatingLog(std::string path, size_t bytes) : path_(std::move(path)), bytes_(bytes) {}
  Result<void> open_file();
  void rotate();

  const std::string path_;
  const size_t bytes_;
  std::mutex mutex_;
  int file_ = -1;
  size_t size_ = 0;  // of the file
};

}  // namespace anabranch
