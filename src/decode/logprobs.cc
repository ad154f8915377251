#include "decode/logprobs.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace anabranch {

TokenLogprobs logprobs_of(std::span<const float> logits, int token, int top) {
  CHECK(token >= 0 && token < static_cast<int>(logits.size()));
  const size_t wanted = std::min(static_cast<size_t>(top), logits.size());
  TokenLogprobs out;
  float largest = logits[0];
  for (size_t i = 0; i < logits.size(); i++) {
    largest = std::max(largest, logits[i]);
    if (wanted == 0 || (out.top.size() == wanted && logits[i] <= out.top.back().logprob)) continue;
    if (out.top.size() == wanted) out.top.pop_back();
    const auto place = std::find_if(out.top.begin(), out.top.end(),
                                    [&](const TokenProbability& t) { return t.logprob < logits[i]; });
    out.top.insert(place, {static_cast<int>(i), logits[i]});
  }
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  const double log_sum = largest + std::log(sum);
  const auto logprob = [&](float logit) {
    return std::max(static_cast<float>(logit - log_sum), kLeastLogprob);
  };
  out.logprob = logprob(logits[token]);
  for (auto& t : out.top) t.logprob = logprob(t.logprob);
  return out;
}

}  // namespace anabranch
