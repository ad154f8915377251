// Remembers the tokens of long texts that occur again and again (tool schemas, system prompts, earlier
// turns), so that each is tokenised once. Thread-safe.
#pragma once

#include <list>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace anabranch {

class SegmentMemo {
 public:
  // Keeps at most about `bytes`; evicts the least recently used texts.
  explicit SegmentMemo(size_t bytes) : budget_(bytes) {}

  // Appends the tokens kept for exactly this key; false if there are none.
  bool append(std::string_view key, std::vector<int>& tokens);
  void put(std::string key, std::span<const int> tokens);
  size_t bytes() const;

 private:
  struct Entry {
    std::string key;
    std::vector<int> tokens;
    size_t bytes() const { return sizeof(Entry) + key.size() + tokens.size() * sizeof(int); }
  };

  const size_t budget_;
  mutable std::mutex mutex_;
  size_t bytes_ = 0;
  std::list<Entry> entries_;                                                 // latest use first
  std::unordered_map<std::string_view, std::list<Entry>::iterator> by_key_;  // keys lie in the entries
};

}  // namespace anabranch
