// Time: of a clock that only goes forward, and of the calendar.
#pragma once

#include <chrono>
#include <cstdint>

namespace anabranch {

// For measuring intervals.
inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Since 1970.
inline int64_t unix_nanoseconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}
inline int64_t unix_seconds() {
  return unix_nanoseconds() / 1'000'000'000;
}

}  // namespace anabranch
