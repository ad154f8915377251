// How the next token is chosen; plain data shared by the engine's clients and the sampler.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace anabranch {

constexpr int kMaxLogprobs = 20;  // maximum alternatives reported with a token

struct SamplingParams {
  float temperature = 0.0f;  // 0 = greedy
  int top_k = 0;             // 0 = all
  float top_p = 1.0f;
  float min_p = 0.0f;
  uint64_t seed = 0;
  // XTC (exclude top choices): at each position, with probability xtc_probability, removes all tokens that
  // are at least xtc_threshold likely, except the least likely one of them.
  float xtc_probability = 0.0f, xtc_threshold = 0.0f;

  // The settings below change the logits before all of the above, also for greedy sampling, in this order.
  // For tokens in the prompt or the answer: positive logits are divided by the penalty, negative ones
  // multiplied (Keskar et al. 2019, "CTRL", section 4.1).
  float repetition_penalty = 1.0f;
  int repetition_window = 0;  // number of last tokens to which it applies; 0 = all
  // For generated tokens, by their count in the answer: logit - frequency * count - presence (OpenAI's
  // definition).
  float frequency_penalty = 0.0f, presence_penalty = 0.0f;
  int frequency_window = 0, presence_window = 0;  // number of the answer's last tokens to count; 0 = all
  std::vector<std::pair<int, float>> logit_bias;  // token, added to its logit; tokens are unique

  bool penalises() const {
    return repetition_penalty != 1.0f || frequency_penalty != 0.0f || presence_penalty != 0.0f;
  }
  bool changes_logits() const { return penalises() || !logit_bias.empty(); }
  bool greedy() const { return temperature <= 0.0f || top_k == 1; }
};

}  // namespace anabranch
