// Counts of the tokens in a sequence, from which penalties are computed.
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "base/sampling_params.h"

namespace anabranch {

// Stays empty and costs nothing when the parameters contain no penalty.
class TokenHistory {
 public:
  struct Count {
    int token;
    int seen = 0;      // in the repetition window
    int frequent = 0;  // of generated tokens, in the frequency penalty's window
    int present = 0;   // of generated tokens, in the presence penalty's window
  };

  TokenHistory() = default;
  TokenHistory(const SamplingParams& params, std::span<const int> prompt);

  // Appends a generated token, or removes the last one. O(1).
  void push(int token);
  void pop();

  const std::vector<Count>& counts() const { return counts_; }  // one per token that ever occurred

 private:
  Count& count(int token);
  void add(int token, int sign);

  bool active_ = false;
  size_t window_ = 0, frequency_window_ = 0, presence_window_ = 0;  // 0 = everything
  std::vector<int> tokens_;
  size_t prompt_ = 0;  // number of prompt tokens in tokens_
  std::vector<Count> counts_;
  std::unordered_map<int, size_t> index_;  // token -> index in counts_
};

}  // namespace anabranch
