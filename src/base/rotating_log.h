// A file of lines that is moved away when it is full, and begun again.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace spdlog {
class logger;
}

namespace anabranch {

// Any thread may write.
class RotatingLog {
 public:
  // Appends to `path`, which is made for its owner alone. When it has `bytes`, it becomes NAME.1.EXT, and so
  // on to NAME.5.EXT, which goes. Errors: io.
  static Result<std::unique_ptr<RotatingLog>> open(const std::string& path, size_t bytes);
  // Appends a line, at once. If the disk is full, the line is lost.
  void write(std::string_view line);

 private:
  explicit RotatingLog(std::shared_ptr<spdlog::logger> logger) : logger_(std::move(logger)) {}
  std::shared_ptr<spdlog::logger> logger_;
};

}  // namespace anabranch
