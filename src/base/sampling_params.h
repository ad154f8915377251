// How the next token is chosen; plain data shared by the engine's clients and the sampler.
#pragma once

#include <cstdint>

namespace anabranch {

struct SamplingParams {
  float temperature = 0.0f;  // 0 = greedy
  int top_k = 0;             // 0 = all
  float top_p = 1.0f;
  float min_p = 0.0f;
  uint64_t seed = 0;
};

}  // namespace anabranch
