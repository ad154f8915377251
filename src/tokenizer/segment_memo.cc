#include "tokenizer/segment_memo.h"

namespace anabranch {

bool SegmentMemo::append(std::string_view key, std::vector<int>& tokens) {
  std::lock_guard lock(mutex_);
  const auto it = by_key_.find(key);
  if (it == by_key_.end()) return false;
  entries_.splice(entries_.begin(), entries_, it->second);
  const auto& kept = it->second->tokens;
  tokens.insert(tokens.end(), kept.begin(), kept.end());
  return true;
}

void SegmentMemo::put(std::string key, std::span<const int> tokens) {
  Entry entry{std::move(key), {tokens.begin(), tokens.end()}};
  std::lock_guard lock(mutex_);
  if (entry.bytes() > budget_ || by_key_.count(entry.key)) return;
  bytes_ += entry.bytes();
  entries_.push_front(std::move(entry));
  by_key_.emplace(entries_.front().key, entries_.begin());
  while (bytes_ > budget_) {
    bytes_ -= entries_.back().bytes();
    by_key_.erase(entries_.back().key);
    entries_.pop_back();
  }
}

size_t SegmentMemo::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace anabranch
