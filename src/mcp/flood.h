// Detects a server that sends too much.
#pragma once

#include "base/clock.h"
#include "mcp/limits.h"

namespace anabranch::mcp {

class FloodGate {
 public:
  explicit FloodGate(const Limits& limits) : limits_(limits) {}
  // Reports a message of `bytes` bytes. False: too much arrived within ten seconds.
  bool take(size_t bytes) {
    const double now = now_seconds();
    if (now - since_ > kWindowSeconds) {
      since_ = now;
      messages_ = bytes_ = 0;
    }
    bytes_ += bytes;
    return ++messages_ <= limits_.flood_messages && bytes_ <= limits_.flood_bytes;
  }

  static constexpr double kWindowSeconds = 10;

 private:
  const Limits limits_;
  double since_ = 0;
  size_t messages_ = 0, bytes_ = 0;
};

}  // namespace anabranch::mcp
