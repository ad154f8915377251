// Finds earlier occurrences of the last tokens of a sequence, and proposes the tokens that followed there
// (Saxena 2023, "Prompt lookup decoding"; Oliaro et al. 2024, "SuffixDecoding", arXiv 2411.04975). As with a
// suffix tree, the longest match decides; if several are equally long, the most frequent continuation does.
//
// Instead of a tree, the index links earlier positions with the same last 2, 4 or 8 tokens into chains, as
// compressors do. Adding a token takes O(1) time, the oldest tokens can be forgotten, and the same matches
// are found, except that of tokens that occur very often only the latest matches are compared.
//
// Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace anabranch {

class SuffixIndex {
 public:
  // The most matches to compare, and the most tokens to compare at each. More would find little better.
  static constexpr int kMostMatches = 64, kMostLength = 64;
  // Stands between texts of one index: nothing matches it, and no proposal contains it.
  static constexpr int kEnd = -1;

  struct Proposal {
    std::vector<int> tokens;  // empty: nothing matches
    int match = 0;            // tokens that matched, at least two
    // The number of matches of this length, and how many continue with the first proposed token.
    int matches = 0, agree = 0;
  };

  void append(std::span<const int> tokens);
  // Forgets the oldest `tokens` tokens. Their memory is freed when forgotten tokens are a quarter of all
  // tokens, or when the tables grow.
  void drop_front(size_t tokens);

  // Proposes at most `count` tokens that may follow `context`, whose tokens are not kEnd. Stops before a
  // token on which the matches do not mostly agree.
  Proposal find(std::span<const int> context, int count) const { return propose(context, count, false); }
  // The same for the indexed text itself, which the proposal may copy beyond its end.
  Proposal find_own(int count) const { return propose(text(), count, true); }

  size_t size() const { return tokens_.size() - first_; }  // tokens
  // The memory in use, in bytes. It has room for a power of two of tokens. While it grows, the index never
  // uses more than its new bytes().
  size_t bytes() const { return bytes_for(room_); }
  size_t bytes_with(size_t tokens) const;  // bytes() after append() of `tokens` tokens

 private:
  static constexpr std::array<int, 3> kOrders = {2, 4, 8};
  static constexpr int kMostSteps =
      256;  // of a walk along a chain, including positions that only share a hash
  struct Chains {
    std::vector<int32_t> last;    // by hash of `order` tokens: the last position where they end, -1: none
    std::vector<int32_t> before;  // of each position: the previous one with this hash
  };
  struct Match {
    int next = 0;   // the position after the match
    int match = 0;  // its length
  };

  static size_t bytes_for(size_t room);
  std::span<const int> text() const { return std::span(tokens_).subspan(first_); }
  void rebuild(size_t room);
  void link(size_t from);
  std::vector<Match> matches(std::span<const int> context) const;
  Proposal propose(std::span<const int> context, int count, bool own) const;

  std::vector<int> tokens_;
  size_t first_ = 0;  // tokens before this position are forgotten
  size_t room_ = 0;   // capacity in tokens; each hash table has as many entries, so that chains stay short
  std::array<Chains, kOrders.size()> chains_;
};

}  // namespace anabranch
