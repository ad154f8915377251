// How often each token is in a sequence: what its penalties are made of.
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "base/sampling_params.h"

namespace anabranch {

// Stays empty, and costs nothing, when the parameters penalise nothing.
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

  // One more token was generated, or the last one was not after all. O(1).
  void push(int token);
  void pop();

  const std::vector<Count>& counts() const { return counts_; }  // one per token that ever was there

 private:
  Count& count(int token);
  void add(int token, int sign);

  bool active_ = false;
  size_t window_ = 0, frequency_window_ = 0, presence_window_ = 0;  // 0 = everything
  std::vector<int> tokens_;
  size_t prompt_ = 0;  // of tokens_
  std::vector<Count> counts_;
  std::unordered_map<int, size_t> index_;  // token -> place in counts_
};

}  // namespace anabranch
