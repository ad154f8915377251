// Prompt lookup: what followed the last tokens when they were there before (Saxena 2023, "Prompt lookup
// decoding"), by the longest match, the latest of equals.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace anabranch {

class NgramIndex {
 public:
  // A place whose tokens equal the last `length` ones; it ends at `end` (the token after is its follower).
  struct Match {
    int end = 0, length = 0;  // 0: nothing matches
  };

  // `tokens` is what it was at the last call and more after it. Two equal tokens in a row are the least that
  // counts. O(1) a token, but for a bounded search.
  Match match(std::span<const int> tokens);

  // What followed, at most `count` tokens; a match that reaches the end goes on from its own copy.
  static std::vector<int> follow(std::span<const int> tokens, const Match& match, int count);

 private:
  std::unordered_map<uint64_t, int> last_;  // two tokens -> where they were last, indexed so far
  std::vector<int> before_;                 // where the two tokens that end here were before, -1 = nowhere
};

}  // namespace anabranch
