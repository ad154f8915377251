// Log probabilities of tokens as the model itself sees them: log softmax(logits), before penalties, bias,
// temperature and filters (as OpenAI tells them).
#pragma once

#include <span>
#include <vector>

namespace anabranch {

struct TokenProbability {
  int token = 0;
  float logprob = 0;  // natural logarithm, at least kLeastLogprob
};

// Of one sampled token.
struct TokenLogprobs {
  float logprob = 0;
  std::vector<TokenProbability> top;  // the likeliest tokens, likeliest first; of equals the lower id
};

constexpr float kLeastLogprob = -9999.0f;  // JSON knows no infinity; OpenAI's value

// logits [vocab], none NaN; top: how many alternatives, >= 0.
TokenLogprobs logprobs_of(std::span<const float> logits, int token, int top);

}  // namespace anabranch
