// Sampling as a pure function of (logits, parameters, history, position). With the same seed a position
// always draws the same noise, whether the row was a draft's and whatever else is in the batch.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/sampling_params.h"
#include "decode/token_history.h"
#include "ops/choose.h"

namespace anabranch {

// A uniform random number in (0, 1), a function of the seed and the counter (token, position). ops/draw.h has
// the arithmetic.
double counter_uniform(uint64_t seed, uint64_t position, uint32_t token);

// A token, and Mirostat's maximum surprise for the next one if this token follows (unset: no Mirostat, or
// greedy).
struct Drawn {
  int token = -1;
  std::optional<double> mu = {};
};

// Samples the token at `position`, which follows `history`.
//  1. Penalties, DRY and then the bias change the logits (see SamplingParams).
//  2. Filters choose the candidates, in this order: the tokens within top_n_sigma standard deviations; the
//  top_k
//     largest; of these the most typical; of these the smallest set whose probability reaches top_p; of these
//     the tokens with at least min_p times the largest probability; XTC then, with its probability, removes
//     all tokens above its threshold except the least likely of them. top_p and what follows it look at the
//     temperature; with a dynamic temperature all filters look at temperature 1. Mirostat takes the place of
//     the filters.
//  3. The result is the candidate with the largest logit / temperature + Gumbel noise. This draws from the
//     softmax over the candidates (the Gumbel-max trick). Temperature 0 is the largest logit; of the filters
//     only typical_p changes it then. Ties go to the lower id.
// logits [vocab], or only those of the tokens `ids` (ascending): a draft from part of the vocabulary gets the
// same noise. Throws std::runtime_error if a logit is NaN or the largest is infinite.
Drawn draw(std::span<const float> logits, const SamplingParams& params, const TokenHistory& history,
           uint64_t position, std::span<const int> ids = {});
inline int sample(std::span<const float> logits, const SamplingParams& params, const TokenHistory& history,
                  uint64_t position, std::span<const int> ids = {}) {
  return draw(logits, params, history, position, ids).token;
}

// How a device samples the same token (ops/choose.h). Kind::none: only sample() can.
ops::RowSampling row_sampling(const SamplingParams& params, uint64_t position);

}  // namespace anabranch
