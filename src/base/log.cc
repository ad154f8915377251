#include "base/log.h"

#include <fcntl.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "base/json_text.h"
#include "base/outside_text.h"
#include "base/printed_text.h"

namespace anabranch {
namespace {

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warning:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
    case LogLevel::off:
      return spdlog::level::off;
  }
  return spdlog::level::info;
}

const char* name_of(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return "debug";
    case LogLevel::warning:
      return "warning";
    case LogLevel::error:
      return "error";
    default:
      return "info";
  }
}

struct Log {
  std::shared_ptr<spdlog::sinks::stderr_color_sink_mt> sink =
      std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  spdlog::logger logger{"anabranch", sink};
  LogFormat format = LogFormat::text;

  Log() {
    logger.set_pattern("%H:%M:%S.%e %^%l%$ %v");
    logger.set_level(spdlog::level::warn);
  }
};

Log& the_log() {
  static Log log;
  return log;
}

}  // namespace

void set_log_format(LogFormat format) {
  the_log().format = format;
  if (format == LogFormat::json) the_log().logger.set_pattern("%v");
}
LogFormat log_format() {
  return the_log().format;
}

Result<void> log_to_file(const std::string& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0600);
  if (file < 0) return make_error(ErrorKind::io, "cannot write the log '{}': {}", path, std::strerror(errno));
  const bool done = ::dup2(file, STDERR_FILENO) >= 0;
  ::close(file);
  if (!done) return make_error(ErrorKind::io, "cannot send stderr to '{}': {}", path, std::strerror(errno));
  Log& log = the_log();
  log.sink->set_color_mode(spdlog::color_mode::automatic);
  // With the date, because a file covers more than one day.
  if (log.format == LogFormat::text) log.logger.set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
  return {};
}

void set_log_level(LogLevel level) {
  the_log().logger.set_level(to_spdlog(level));
}
bool log_enabled(LogLevel level) {
  return the_log().logger.should_log(to_spdlog(level));
}
void log_message(LogLevel level, std::string_view message) {
  log_fields(level, message, {});
}

LogField::LogField(std::string_view field, std::string_view text) : name(field), json(json_string(text)) {}

// Escapes the parts of a message that clients, files and servers choose: they stay on one line, and do not
// control the terminal.
void log_fields(LogLevel level, std::string_view message, const std::vector<LogField>& fields) {
  Log& log = the_log();
  if (log.format == LogFormat::text) return log.logger.log(to_spdlog(level), "{}", escape_line(message));
  if (!log_enabled(level)) return;
  std::string line = fmt::format(R"({{"time":"{}","level":"{}","message":{})", rfc3339(unix_nanoseconds()),
                                 name_of(level), json_string(message));
  for (const LogField& field : fields) line += fmt::format(R"(,"{}":{})", field.name, field.json);
  log.logger.log(to_spdlog(level), "{}}}", escape_json(line));
}

}  // namespace anabranch
