#include "ops/choose.h"

#include <algorithm>
#include <utility>

#include "ops/arguments.h"
#include "ops/table.h"

namespace anabranch::ops {
namespace {

class KnownTokens final : public ChosenTokens {
 public:
  KnownTokens(Tensor ids, std::vector<int> tokens)
      : ChosenTokens(std::move(ids)), tokens_(std::move(tokens)) {}
  std::vector<int> wait() override { return tokens_; }

 private:
  std::vector<int> tokens_;
};

}  // namespace

std::unique_ptr<ChosenTokens> choose_tokens(const Tensor& logits, std::span<const RowSampling> rows) {
  require_f32("choose_tokens", "logits", logits, 2);
  require(logits.shape(0) == static_cast<int>(rows.size()), "choose_tokens",
          "{} rows of logits, {} of choices.", logits.shape(0), rows.size());
  const auto choose = logits.device().ops().choose_tokens;
  return choose ? choose(logits, rows) : nullptr;
}

std::unique_ptr<ChosenTokens> known_tokens(Device& device, std::vector<int> tokens) {
  Tensor ids = device.empty({static_cast<int>(tokens.size())}, Dtype::i32);
  std::copy(tokens.begin(), tokens.end(), ids.data<int>());
  return std::make_unique<KnownTokens>(std::move(ids), std::move(tokens));
}

}  // namespace anabranch::ops
