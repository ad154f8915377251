// Logging to stderr, as lines of text or as JSON objects, one per line. The backend (spdlog) is hidden,
// because its headers are large.
//
// Messages and fields never hold text of prompts or answers, nor keys.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/result.h"

namespace anabranch {

enum class LogLevel { debug, info, warning, error, off };
enum class LogFormat { text, json };

// Call it before the first thread starts. JSON: {"time": RFC 3339 in UTC, "level", "message", fields}.
void set_log_format(LogFormat format);
LogFormat log_format();
// From now on stderr, and so the log, is appended to this file, which is created for its owner only. Calling
// it with the same path again opens a new file if the old one was moved away. Errors: io (stderr does not
// change).
Result<void> log_to_file(const std::string& path);

void set_log_level(LogLevel level);
bool log_enabled(LogLevel level);
void log_message(LogLevel level, std::string_view message);

// An additional value of a JSON line.
struct LogField {
  LogField(std::string_view name, std::string_view text);
  template <class Number>
  requires std::is_arithmetic_v<Number> LogField(std::string_view field, Number number)
      : name(field), json(fmt::format("{}", number)) {}

  std::string name, json;
};
// Logs a message with fields. Lines of text omit the fields.
void log_fields(LogLevel level, std::string_view message, const std::vector<LogField>& fields);

template <class... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::debug))
    log_message(LogLevel::debug, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::info))
    log_message(LogLevel::info, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::warning))
    log_message(LogLevel::warning, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::error))
    log_message(LogLevel::error, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace anabranch
