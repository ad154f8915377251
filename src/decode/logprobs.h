// Log probabilities of the model itself: log softmax(logits), before penalties, bias, temperature and
// filters, as in OpenAI's API.
#pragma once

#include <span>
#include <vector>

namespace anabranch {

struct TokenProbability {
  int token = 0;
  float logprob = 0;  // natural logarithm, at least kLeastLogprob
};

// The log probabilities at one sampled token.
struct TokenLogprobs {
  float logprob = 0;
  std::vector<TokenProbability> top;  // the most likely tokens in descending order; ties by lower id
};

constexpr float kLeastLogprob = -9999.0f;  // OpenAI's value for minus infinity, which JSON cannot express

// logits [vocab], without NaN. top: number of alternatives, >= 0.
TokenLogprobs logprobs_of(std::span<const float> logits, int token, int top);

}  // namespace anabranch
