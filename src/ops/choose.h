// Chooses tokens on the device that holds the logits. A token costs 4 bytes of transfer to the host, a row of
// logits a megabyte; and the next pass can start with tokens that the host does not know yet.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tensor/tensor.h"

namespace anabranch::ops {

// How the token of a row is chosen; see decode/sampler.h.
struct RowSampling {
  enum class Kind : uint8_t {
    none,
    greedy,
    noise,
    top_k
  };  // none: not chosen here; noise: drawn from all tokens
  Kind kind = Kind::none;
  float temperature = 0;
  float behind_top = 0;  // upper bound (<= 0) of the candidates' scores relative to the best score
  int top_k = 0;         // 1 to kMostTopK
  float top_p = 1;       // applies to the top_k candidates
  uint64_t seed = 0, position = 0;
};
constexpr int kMostTopK = 64;

// The chosen tokens of rows, available as soon as the device has computed them.
class ChosenTokens {
 public:
  explicit ChosenTokens(Tensor ids) : ids_(std::move(ids)) {}
  virtual ~ChosenTokens() = default;
  // [rows] i32 on the device; -1: no token.
  const Tensor& ids() const { return ids_; }
  // Waits for the device. -1: the row's kind is none, or the device cannot choose (a logit is NaN).
  virtual std::vector<int> wait() = 0;

 private:
  Tensor ids_;
};

// logits [rows, vocab]. Returns null if this device does not choose tokens. With no rows, the result can only
// be used to wait until the device has finished its earlier work.
std::unique_ptr<ChosenTokens> choose_tokens(const Tensor& logits, std::span<const RowSampling> rows);
// Tokens that the host chose, for a device in the host's memory.
std::unique_ptr<ChosenTokens> known_tokens(Device& device, std::vector<int> tokens);

}  // namespace anabranch::ops
