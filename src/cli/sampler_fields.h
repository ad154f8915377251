// The parameters of sampling: for flags, /set in a chat, requests to another server, and the engine.
#pragma once

#include <optional>
#include <type_traits>

#include "base/sampling_params.h"
#include "cli/options.h"

namespace anabranch::cli {

template <class T>
struct SamplerField {
  const char* name;  // in requests, and for /set
  const char* flag;
  std::optional<T> SamplingOptions::*given;
  T SamplingParams::*used;
  std::conditional_t<std::is_integral_v<T>, int, double> least, most;
  const char* help;
};

template <class Function>
void for_sampler_fields(const Function& see) {
  using O = SamplingOptions;
  using P = SamplingParams;
  const auto number = [&](const SamplerField<float>& field) { see(field); };
  number({"temperature", "--temp", &O::temperature, &P::temperature, 0, 100,
          "Temperature; 0 = greedy (default: the model's recommendation)"});
  number(
      {"top_p", "--top-p", &O::top_p, &P::top_p, 0, 1, "Keep the likeliest tokens up to this probability"});
  see(SamplerField<int>{"top_k", "--top-k", &O::top_k, &P::top_k, 0, 1 << 24,
                        "Keep this many tokens; 0 = all"});
  number({"min_p", "--min-p", &O::min_p, &P::min_p, 0, 1,
          "Keep tokens at least this likely, relative to the best"});
  number({"repetition_penalty", "--repetition-penalty", &O::repetition_penalty, &P::repetition_penalty, 0.01,
          100, "Divide the logits of tokens that were there before, prompt included; 1 = off"});
  number({"presence_penalty", "--presence-penalty", &O::presence_penalty, &P::presence_penalty, -2, 2,
          "Take this off the logits of tokens that the answer has already"});
  number({"frequency_penalty", "--frequency-penalty", &O::frequency_penalty, &P::frequency_penalty, -2, 2,
          "Take this off the logits of tokens for each time that the answer has them"});
}

}  // namespace anabranch::cli
