// A meeting point on the host for the threads of several ranks: each shows a value, which the others can read
// until the next meeting.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <vector>

namespace anabranch::ops {

class Meeting {
 public:
  explicit Meeting(int ranks) : shown_(static_cast<size_t>(ranks)) {}

  // Shows a value to the others, and waits for theirs. It stays valid until the next wait() or show()
  // returns. Throws std::runtime_error after abort().
  void show(int rank, const void* what) {
    shown_[static_cast<size_t>(rank)] = what;
    wait();
  }
  template <class T>
  const T& of(int rank) const {
    return *static_cast<const T*>(shown_[static_cast<size_t>(rank)]);
  }
  void wait() {
    std::unique_lock lock(mutex_);
    const uint64_t round = round_;
    if (++arrived_ == shown_.size()) {
      arrived_ = 0;
      round_++;
      turned_.notify_all();
    }
    turned_.wait(lock, [&] { return round_ != round || aborted_; });
    if (aborted_) throw std::runtime_error("another device of the group has failed");
  }
  void abort() {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
    turned_.notify_all();
  }

 private:
  std::vector<const void*> shown_;
  std::mutex mutex_;
  std::condition_variable turned_;
  size_t arrived_ = 0;
  uint64_t round_ = 0;
  bool aborted_ = false;
};

}  // namespace anabranch::ops
