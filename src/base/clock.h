// Monotonic time in seconds, for measuring intervals.
#pragma once

#include <chrono>

namespace anabranch {

inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace anabranch
