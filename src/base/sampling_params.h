// How the next token is chosen; plain data shared by the engine's clients and the sampler.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace anabranch {

constexpr int kMaxLogprobs = 20;  // maximum alternatives reported with a token

// DRY ("don't repeat yourself"), as llama.cpp has it: a token that would lengthen a repetition of earlier
// tokens, prompt included, loses multiplier * base ^ (length - allowed_length), where `length` is the number
// of tokens that are repeated already. Shorter repetitions cost nothing. A repetition does not reach back
// over a breaker.
struct DryParams {
  float multiplier = 0.0f;  // 0 = off
  float base = 1.75f;       // at least 1
  int allowed_length = 2;
  int window = -1;  // number of last tokens in which repetitions are looked for; -1 = all, 0 = off
  std::vector<std::string> breakers = {"\n", ":", "\"", "*"};
  bool on() const { return multiplier > 0 && window != 0; }
};

struct SamplingParams {
  float temperature = 0.0f;  // 0 = greedy
  int top_k = 0;             // 0 = all
  float top_p = 1.0f;
  float min_p = 0.0f;
  uint64_t seed = 0;
  // XTC (exclude top choices): at each position, with probability xtc_probability, removes all tokens that
  // are at least xtc_threshold likely, except the least likely one of them.
  float xtc_probability = 0.0f, xtc_threshold = 0.0f;
  // Keeps the tokens whose logit is at most this many standard deviations of all logits below the largest; 0
  // = off (Tang et al. 2024, "Top-n-sigma").
  float top_n_sigma = 0.0f;
  // Locally typical sampling (Meister et al. 2022): keeps the tokens whose surprise is nearest to the
  // entropy, up to this probability; 1 = off. It looks at the probabilities at temperature 1.
  float typical_p = 1.0f;
  // Dynamic temperature, as llama.cpp has it: between temperature - range (at least 0) and temperature +
  // range, by the entropy of the candidates as a share of the largest possible one, to the power of the
  // exponent. The filters then look at temperature 1. 0 = off.
  float dynatemp_range = 0.0f, dynatemp_exponent = 1.0f;
  // Mirostat (Basu et al. 2020) 1 or 2 in place of all filters, as llama.cpp has it: the surprise of the
  // answer's tokens approaches tau bits, at the rate eta. 0 = off.
  int mirostat = 0;
  float mirostat_tau = 5.0f, mirostat_eta = 0.1f;

  // The settings below change the logits before all of the above, also for greedy sampling, in this order.
  // For tokens in the prompt or the answer: positive logits are divided by the penalty, negative ones
  // multiplied (Keskar et al. 2019, "CTRL", section 4.1).
  float repetition_penalty = 1.0f;
  int repetition_window = 0;  // number of last tokens to which it applies; 0 = all
  // For generated tokens, by their count in the answer: logit - frequency * count - presence (OpenAI's
  // definition).
  float frequency_penalty = 0.0f, presence_penalty = 0.0f;
  int frequency_window = 0, presence_window = 0;  // number of the answer's last tokens to count; 0 = all
  DryParams dry;
  std::vector<std::pair<int, float>> logit_bias;  // token, added to its logit; tokens are unique

  bool penalises() const {
    return repetition_penalty != 1.0f || frequency_penalty != 0.0f || presence_penalty != 0.0f;
  }
  bool changes_logits() const { return penalises() || dry.on() || !logit_bias.empty(); }
  // Whether the largest logit is chosen.
  bool greedy() const {
    if (mirostat > 0) return temperature <= 0.0f;
    return top_k == 1 || (temperature <= 0.0f && dynatemp_range <= 0.0f && typical_p >= 1.0f);
  }
  // Whether there are filters that only the host has.
  bool filters_on_host() const {
    return xtc_probability > 0 || top_n_sigma > 0 || typical_p < 1 || dynatemp_range > 0 || mirostat > 0;
  }
};

}  // namespace anabranch
