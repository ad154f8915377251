// A monotonic clock, thread CPU time, and calendar time.
#pragma once

#include <time.h>

#include <chrono>
#include <cstdint>
#include <string>

namespace anabranch {

// The monotonic clock, for measuring intervals.
inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// CPU time of the calling thread; time of other threads and processes does not count.
inline double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// Calendar time since 1970.
inline int64_t unix_nanoseconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}
inline int64_t unix_seconds() {
  return unix_nanoseconds() / 1'000'000'000;
}

// A point of time in UTC, such as 2026-01-31T23:59:59.123456789Z.
std::string rfc3339(int64_t unix_nanoseconds);

}  // namespace anabranch
