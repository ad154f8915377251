// The data about a sequence's tokens that a sampler needs: their counts, from which penalties are computed,
// their repetitions, and Mirostat's state.
#pragma once

#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/sampling_params.h"
#include "decode/repetitions.h"

namespace anabranch {

// Stays empty and costs nothing when the parameters need none of it.
class TokenHistory {
 public:
  struct Count {
    int token;
    int seen = 0;      // in the repetition window
    int frequent = 0;  // of generated tokens, in the frequency penalty's window
    int present = 0;   // of generated tokens, in the presence penalty's window
  };

  TokenHistory() = default;
  // tokenizer: finds DRY's breakers, and outlives the history; null: there are none.
  TokenHistory(const SamplingParams& params, std::span<const int> prompt,
               const Tokenizer* tokenizer = nullptr);

  // Appends a generated token, or removes the last one. O(1). mu: Mirostat's after this token (see Drawn in
  // sampler.h); unset: it stays the same.
  void push(int token, std::optional<double> mu = {});
  void pop();

  const std::vector<Count>& counts() const { return counts_; }  // one per token that ever occurred
  const Repetitions& repetitions() const { return repetitions_; }
  // Mirostat's maximum surprise for the next token. It depends on the answer's tokens so far and how probable
  // each was, so it is the same with and without drafts, and after a preemption.
  double mu() const { return mus_.back(); }

 private:
  Count& count(int token);
  void add(int token, int sign);

  bool active_ = false;
  size_t window_ = 0, frequency_window_ = 0, presence_window_ = 0;  // 0 = everything
  std::vector<int> tokens_;
  size_t prompt_ = 0;  // number of prompt tokens in tokens_
  std::vector<Count> counts_;
  std::unordered_map<int, size_t> index_;  // token -> index in counts_
  Repetitions repetitions_;
  std::vector<double> mus_;  // Mirostat only: before the first token, and after each
};

}  // namespace anabranch
