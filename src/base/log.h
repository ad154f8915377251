// Logging to stderr. The backend (spdlog) is hidden: its headers are heavy.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

namespace anabranch {

enum class LogLevel { debug, info, warning, error, off };

void set_log_level(LogLevel level);
bool log_enabled(LogLevel level);
void log_message(LogLevel level, std::string_view message);

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
