// Sampling as a pure function of (logits, parameters, history, position): with the same seed a position
// always draws the same noise, however the logits were computed and whoever shares the batch.
#pragma once

#include <cstdint>
#include <span>

#include "base/sampling_params.h"
#include "decode/token_history.h"

namespace anabranch {

// Uniform in (0, 1) from a counter: Philox 4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as
// 1, 2, 3") keyed by the seed, at counter (token, position).
double counter_uniform(uint64_t seed, uint64_t position, uint32_t token);

// The token at `position`, which follows `history`: the logits are changed by the penalties and then the bias
// (see SamplingParams); then it is the argmax over the kept tokens of logit / temperature + Gumbel noise,
// which draws from softmax(logits / temperature) restricted to them (the Gumbel-max trick). Kept are, in this
// order: the top_k largest; of these the smallest set whose probability reaches top_p; of these those with at
// least min_p times the largest probability; of these, by XTC, those without the likeliest. Temperature 0 is
// argmax. Ties go to the lower id. logits [vocab], or of the tokens `ids` (ascending) only: a draft from part
// of the vocabulary meets the same noise. Throws std::runtime_error if one is NaN or the largest is infinite.
int sample(std::span<const float> logits, const SamplingParams& params, const TokenHistory& history,
           uint64_t position, std::span<const int> ids = {});

}  // namespace anabranch
