#include "base/rotating_log.h"

#include <fcntl.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <unistd.h>

namespace anabranch {
namespace {

constexpr size_t kOldFiles = 5;

// Library: it would make a file that everybody can read.
void make_private(const std::string& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0600);
  if (file >= 0) ::close(file);
}

}  // namespace

Result<std::unique_ptr<RotatingLog>> RotatingLog::open(const std::string& path, size_t bytes) {
  try {
    spdlog::file_event_handlers handlers;
    handlers.before_open = make_private;
    auto sink =
        std::make_shared<spdlog::sinks::rotating_file_sink_mt>(path, bytes, kOldFiles, false, handlers);
    auto logger = std::make_shared<spdlog::logger>("", std::move(sink));
    logger->set_pattern("%v");
    logger->flush_on(spdlog::level::info);
    return std::unique_ptr<RotatingLog>(new RotatingLog(std::move(logger)));
  } catch (const spdlog::spdlog_ex& e) {
    return make_error(ErrorKind::io, "cannot write '{}': {}", path, e.what());
  }
}

void RotatingLog::write(std::string_view line) {
  logger_->info("{}", line);
}

}  // namespace anabranch
