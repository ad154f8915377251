// Sampling parameters that a model's files recommend.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/sampling_params.h"
#include "checkpoint/checkpoint.h"

namespace anabranch {

struct Recommendation {
  SamplingParams sampling;
  std::string from;  // "generation_config.json", "GGUF metadata", or "default": the files recommend nothing
  std::vector<int> eos;  // tokens that end a turn, from generation_config.json
};

// Reads generation_config.json or a GGUF file's general.sampling.*; without a recommendation temperature 0.8,
// top_p 0.95 and min_p 0.05. Missing or invalid values keep their defaults.
Recommendation read_recommendation(const Checkpoint& checkpoint);

}  // namespace anabranch
