// Work queued on the fake driver's streams. A real card does it at any time until somebody waits for it;
// here it is done as late as it can be, when somebody does: results that nobody waited for are not there, and
// memory of the host that was given away too early is seen to change.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace anabranch {

struct LateWork {
  const char* what = "";
  std::function<int()> carry_out;  // returns an error of CUDA
  // Pinned memory of the host that it reads or writes. Nobody else may write there before it is done.
  char* pinned = nullptr;
  size_t pinned_bytes = 0;
  // Memory of the card that it clears.
  uint64_t cleared = 0;
  size_t cleared_bytes = 0;
  // Of the pinned memory when this was asked for; unset if earlier work of the stream may still change it.
  std::optional<size_t> hash;

  size_t hash_now() const { return std::hash<std::string_view>()({pinned, pinned_bytes}); }
};

class LateStream {
 public:
  void add(LateWork work) {
    if (!touching(work.pinned, work.pinned_bytes)) work.hash = work.hash_now();
    waiting_.push_back(std::move(work));
  }
  // How much was asked for so far.
  uint64_t asked() const { return done_ + waiting_.size(); }
  bool is_done(uint64_t end) const { return done_ >= end; }

  // Does the first `end` works. Calls changed(work) for one whose pinned memory is not as it was.
  template <class Changed>
  int carry_out(uint64_t end, const Changed& changed) {
    int error = 0;
    while (!waiting_.empty() && done_ < end) {
      const LateWork work = std::move(waiting_.front());
      waiting_.pop_front();
      done_++;
      const int own = !work.hash || *work.hash == work.hash_now() ? work.carry_out() : changed(work);
      if (error == 0) error = own;
    }
    return error;
  }

  // The first work that touches such memory of the host, or clears such memory of the card; or null.
  const LateWork* touching(const void* host, size_t bytes) const {
    const auto* p = static_cast<const char*>(host);
    for (const LateWork& work : waiting_)
      if (p < work.pinned + work.pinned_bytes && work.pinned < p + bytes) return &work;
    return nullptr;
  }
  const LateWork* clearing(uint64_t address) const {
    for (const LateWork& work : waiting_)
      if (address >= work.cleared && address < work.cleared + work.cleared_bytes) return &work;
    return nullptr;
  }

  static constexpr uint64_t kAll = std::numeric_limits<uint64_t>::max();

 private:
  std::deque<LateWork> waiting_;
  uint64_t done_ = 0;
};

}  // namespace anabranch
