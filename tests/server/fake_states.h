// Kept states of a fake engine: they count what they are told to forget, which may wait.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "cache/shared_states.h"

namespace anabranch::server {

class FakeStates final : public SharedStates {
 public:
  const Fingerprint& fingerprint() const override { return fingerprint_; }
  KeptPrefix kept(std::span<const PrefixKey>) const override { return {}; }
  Result<std::string> record(const DiskRecord&) const override { return Error{ErrorKind::not_found, "none"}; }
  void forget(std::vector<DiskRecord> records) override {
    if (records.empty()) return;
    entered++;
    pass();
    forgotten_ += records.size();
  }

  // From now on forget() waits for open().
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  void open() {
    const std::lock_guard lock(mutex_);
    closed_ = false;
    opened_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [&] { return !closed_; });
  }
  size_t forgotten() const { return forgotten_; }
  // Of a state of so many tokens.
  std::string trace(int tokens) const {
    const auto length = static_cast<uint32_t>(tokens);
    return full_name({fingerprint_, RecordKind::snapshot, {1, length}, {2, 2}, length, 0, 0});
  }
  std::atomic<int> entered{0};  // calls of forget() that had something to do

 private:
  const Fingerprint fingerprint_ = fingerprint_of("a fake model");
  std::mutex mutex_;
  std::condition_variable opened_;
  bool closed_ = false;
  std::atomic<size_t> forgotten_{0};
};

}  // namespace anabranch::server
