// Prompt lookup (Saxena 2023, "Prompt lookup decoding"): finds an earlier occurrence of the last tokens and
// proposes the tokens that followed it. The longest match wins; of equally long ones the latest.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace anabranch {

class NgramIndex {
 public:
  // An earlier stretch that equals the last `length` tokens; the token at `end` follows it.
  struct Match {
    int end = 0, length = 0;  // 0: nothing matches
  };

  // Finds the best match. `tokens` must extend the tokens of the last call. At least two tokens must match.
  // Costs O(1) per new token, plus a bounded search.
  Match match(std::span<const int> tokens);

  // The tokens that followed the match, at most `count`; at the end of `tokens` it continues with the
  // proposal itself.
  static std::vector<int> follow(std::span<const int> tokens, const Match& match, int count);

 private:
  std::unordered_map<uint64_t, int> last_;  // pair of tokens -> its last position in the indexed tokens
  std::vector<int> before_;                 // previous position of the pair that ends here; -1: none
};

}  // namespace anabranch
