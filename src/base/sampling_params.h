// How the next token is chosen; plain data shared by the engine's clients and the sampler.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace anabranch {

constexpr int kMaxLogprobs = 20;  // alternatives told beside a token

struct SamplingParams {
  float temperature = 0.0f;  // 0 = greedy
  int top_k = 0;             // 0 = all
  float top_p = 1.0f;
  float min_p = 0.0f;
  uint64_t seed = 0;
  // XTC (exclude top choices): at a position, with this probability, of the tokens that have at least the
  // threshold's probability only the least likely one stays.
  float xtc_probability = 0.0f, xtc_threshold = 0.0f;

  // What changes the logits before all of the above, greedy too, in this order.
  // Of tokens in the prompt or generated: positive logits are divided by it, negative ones multiplied (Keskar
  // et al. 2019, "CTRL", section 4.1).
  float repetition_penalty = 1.0f;
  int repetition_window = 0;  // only the last so many tokens count for it; 0 = all
  // Of generated tokens, how often each is there: logit - frequency * count - presence (as OpenAI defines
  // them).
  float frequency_penalty = 0.0f, presence_penalty = 0.0f;
  int frequency_window = 0, presence_window = 0;  // only the answer's last so many tokens count; 0 = all
  std::vector<std::pair<int, float>> logit_bias;  // token, added to its logit; ids differ

  bool penalises() const {
    return repetition_penalty != 1.0f || frequency_penalty != 0.0f || presence_penalty != 0.0f;
  }
  bool changes_logits() const { return penalises() || !logit_bias.empty(); }
  bool greedy() const { return temperature <= 0.0f || top_k == 1; }
};

}  // namespace anabranch
