// Detects clients that read too slowly. The rule does not depend on how fast answers are produced: a client
// that keeps up has almost no bytes waiting, however slow its connection.
#pragma once

#include <cstddef>
#include <cstdint>

namespace anabranch::server {

class StallWatch {
 public:
  StallWatch(double seconds, size_t bytes) : seconds_(seconds), bytes_(bytes) {}

  // To be called regularly. waiting: bytes that the client has not acknowledged; stuck: some of them do not
  // even fit into the system's send buffer; taken: bytes acknowledged since it connected. Returns true if,
  // for `seconds`, every call saw more than `bytes` waiting (or some stuck) and the client took fewer than
  // `bytes`.
  bool stalled(double now, size_t waiting, bool stuck, uint64_t taken) {
    const bool pressed = waiting > bytes_ || stuck;
    if (!pressed || !pressed_ || taken >= taken_ + bytes_) {
      pressed_ = pressed;
      since_ = now;
      taken_ = taken;
    }
    return pressed_ && now - since_ >= seconds_;
  }

 private:
  const double seconds_;
  const size_t bytes_;
  bool pressed_ = false;  // at the last call, too many bytes were waiting or stuck
  double since_ = 0;
  uint64_t taken_ = 0;  // taken at since_
};

}  // namespace anabranch::server
