// Time: of a clock that only goes forward, and of the calendar.
#pragma once

#include <time.h>

#include <chrono>
#include <cstdint>

namespace anabranch {

// For measuring intervals.
inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// What the calling thread has computed, whoever else wanted the processor meanwhile.
inline double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
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
