// When a client that takes too little of what is sent to it is dropped. The rule does not depend on how fast
// answers are produced: a client that keeps up has next to nothing waiting, however slow its connection.
#pragma once

#include <cstddef>
#include <cstdint>

namespace anabranch::server {

class StallWatch {
 public:
  StallWatch(double seconds, size_t bytes) : seconds_(seconds), bytes_(bytes) {}

  // Called every now and then. waiting: bytes that the client has not taken; stuck: some of them do not even
  // fit into the system's send buffer; taken: bytes that it has taken since it connected. True: for `seconds`
  // more than `bytes` waited (or some were stuck) at every call, and it took fewer than `bytes`.
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
  bool pressed_ = false;  // at the last call
  double since_ = 0;
  uint64_t taken_ = 0;  // at since_
};

}  // namespace anabranch::server
