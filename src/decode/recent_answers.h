// The latest answers of an engine, from which the drafts of later requests can be copied. A request sees only
// answers with its own cache salt; otherwise the speed of its answer would reveal answers to others.
//
// Memory is bounded at all times: the oldest answers of all salts are forgotten before one is added. Used on
// the engine thread only.
#pragma once

#include <deque>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "decode/suffix_index.h"

namespace anabranch {

class RecentAnswers {
 public:
  static constexpr size_t kMostBytes = 16u << 20;

  explicit RecentAnswers(size_t most_bytes = kMostBytes) : most_bytes_(most_bytes) {}

  // An answer that does not fit into the memory limit is not stored.
  void add(std::string_view salt, std::span<const int> answer);
  // Proposes what may follow `context`, as SuffixIndex::find() does.
  SuffixIndex::Proposal find(std::string_view salt, std::span<const int> context, int count) const;
  size_t bytes() const { return bytes_; }

 private:
  using Texts = std::map<std::string, SuffixIndex, std::less<>>;
  struct Answer {
    Texts::iterator text;
    size_t tokens;  // including its kEnd
  };
  static size_t bytes_of(std::string_view salt);
  size_t bytes_more(std::string_view salt, size_t tokens) const;
  void drop_oldest();

  size_t most_bytes_, bytes_ = 0;
  Texts texts_;                 // by salt
  std::deque<Answer> answers_;  // the oldest first
};

}  // namespace anabranch
