// Sampling as a pure function of (logits, parameters, history, position). With the same seed a position
// always draws the same noise, whether the row was a draft's and whatever else is in the batch.
#pragma once

#include <cstdint>
#include <span>

#include "base/sampling_params.h"
#include "decode/token_history.h"
#include "ops/choose.h"

namespace anabranch {

// A uniform random number in (0, 1), a function of the seed and the counter (token, position). ops/draw.h has
// the arithmetic.
double counter_uniform(uint64_t seed, uint64_t position, uint32_t token);

// Samples the token at `position`, which follows `history`.
//  1. Penalties and then the bias change the logits (see SamplingParams).
//  2. Filters choose the candidates, in this order: the top_k largest; of these the smallest set whose
//     probability reaches top_p; of these the tokens with at least min_p times the largest probability; XTC
//     then, with its probability, removes all tokens above its threshold except the least likely of them.
//  3. The result is the candidate with the largest logit / temperature + Gumbel noise. This draws from the
//     softmax over the candidates (the Gumbel-max trick). Temperature 0 is argmax. Ties go to the lower id.
// logits [vocab], or only those of the tokens `ids` (ascending): a draft from part of the vocabulary gets the
// same noise. Throws std::runtime_error if a logit is NaN or the largest is infinite.
int sample(std::span<const float> logits, const SamplingParams& params, const TokenHistory& history,
           uint64_t position, std::span<const int> ids = {});

// The same choice for a device to make (ops/choose.h). Kind::none: only sample() can.
ops::RowChoice choice_of(const SamplingParams& params, uint64_t position);

}  // namespace anabranch
