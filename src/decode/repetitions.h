// Finds the tokens that would lengthen a repetition at the end of a sequence, for DRY (DryParams).
#pragma once

#include <bitset>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/sampling_params.h"
#include "tokenizer/tokenizer.h"

namespace anabranch {

// Empty, and without cost, unless made from parameters.
class Repetitions {
 public:
  Repetitions() = default;
  // Borders are the tokens in whose text a breaker ends, even if it begins in earlier tokens, and the tokens
  // without text (of images). tokenizer: outlives this object; null: there are no borders.
  Repetitions(const DryParams& params, std::span<const int> prompt, const Tokenizer* tokenizer);

  void push(int token);
  void pop();

  // For each token that would continue a repetition: the length of the longest one, in tokens, if it is at
  // least DryParams::allowed_length. Takes time in proportion to the window.
  std::unordered_map<int, int> next() const;
  // The penalty of a token that continues a repetition of this length; it is subtracted from the logit.
  float penalty(int length) const;

 private:
  bool is_border() const;

  bool on_ = false;
  DryParams params_;
  const Tokenizer* tokenizer_ = nullptr;
  std::bitset<256> last_bytes_;  // of the breakers
  size_t longest_ = 0;           // bytes of a breaker
  std::vector<int> tokens_;
  std::vector<bool> borders_;  // by token
};

}  // namespace anabranch
