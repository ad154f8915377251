// The choice of tokens where the logits are: a token costs the way to the host 4 bytes and a row of logits a
// megabyte, and the next pass may begin with tokens that the host does not know yet.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tensor/tensor.h"

namespace anabranch::ops {

// How the token of a row is chosen, as decode/sampler.h says.
struct RowChoice {
  enum class Kind : uint8_t { none, greedy, noise, top_k };  // none: not here; noise: of all tokens
  Kind kind = Kind::none;
  float temperature = 0;
  float behind_top = 0;  // candidates' scores are at most so far behind the best one's (a number <= 0)
  int top_k = 0;         // 1 to kMostTopK
  float top_p = 1;       // of the top_k
  uint64_t seed = 0, position = 0;
};
constexpr int kMostTopK = 64;

// The tokens of rows, as soon as they are known.
class ChosenTokens {
 public:
  explicit ChosenTokens(Tensor ids) : ids_(std::move(ids)) {}
  virtual ~ChosenTokens() = default;
  // [rows] i32 on the device; -1: none.
  const Tensor& ids() const { return ids_; }
  // Waits for the device. -1: the row's kind is none, or the device cannot tell (a logit is not a number).
  virtual std::vector<int> wait() = 0;

 private:
  Tensor ids_;
};

// logits [rows, vocab]; null: this device does not choose. Of no rows the result only tells when the device
// is done with what it was asked for before.
std::unique_ptr<ChosenTokens> choose_tokens(const Tensor& logits, std::span<const RowChoice> rows);
// Tokens that the host chose, for a device in the host's memory.
std::unique_ptr<ChosenTokens> known_tokens(Device& device, std::vector<int> tokens);

}  // namespace anabranch::ops
