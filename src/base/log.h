// Logging to stderr, as lines of text or as JSON objects, one a line. The backend (spdlog) is hidden: its
// headers are heavy.
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

// Before the first thread starts. JSON: {"time": RFC 3339 in UTC, "level", "message", fields}.
void set_log_format(LogFormat format);
LogFormat log_format();
// From now on stderr, and so the log, goes to the end of this file, which is made for its owner alone. The
// same path again opens a new file if the old one was moved away. Errors: io (stderr stays as it was).
Result<void> log_to_file(const std::string& path);

void set_log_level(LogLevel level);
bool log_enabled(LogLevel level);
void log_message(LogLevel level, std::string_view message);

// A value that a JSON line has beside its message.
struct LogField {
  LogField(std::string_view name, std::string_view text);
  template <class Number>
  requires std::is_arithmetic_v<Number> LogField(std::string_view field, Number number)
      : name(field), json(fmt::format("{}", number)) {}

  std::string name, json;
};
// The fields are left out of a text line.
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
