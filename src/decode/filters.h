// The filters of a sampler: each removes candidates from a list. decode/sampler.h tells their order.
#pragma once

#include <span>
#include <vector>

#include "base/sampling_params.h"

namespace anabranch {

struct Candidate {
  float score;  // logit, or logit / temperature
  int token;
};

inline bool ahead(const Candidate& a, const Candidate& b) {
  return a.score != b.score ? a.score > b.score : a.token < b.token;
}

// A list must not be empty, and does not become empty. Its order does not matter and may change.
//
// Keeps the k largest; 0: all.
void keep_top_k(std::vector<Candidate>& list, int k);
void keep_top_p(std::vector<Candidate>& list, float p);
void keep_min_p(std::vector<Candidate>& list, float p);
// Keeps the tokens whose logits are at most n standard deviations (of all finite logits) below the largest.
void keep_near_best(std::vector<Candidate>& list, std::span<const float> logits, float n);
// Keeps the tokens whose surprise is nearest to the entropy of the list, until they reach this share of it.
// If two tokens are equally near, the more likely one comes first.
void keep_typical(std::vector<Candidate>& list, float p);
// XTC: removes all tokens that are at least `threshold` likely, except the least likely of them.
void exclude_top_choices(std::vector<Candidate>& list, float threshold);
// Mirostat 1 or 2: keeps the tokens with a surprise of at most about mu bits. vocab: size of the vocabulary.
void keep_unsurprising(std::vector<Candidate>& list, int version, double mu, size_t vocab);
// The surprise of one of these tokens, in bits. The list must be sorted, as keep_unsurprising() leaves it.
double surprise_of(const std::vector<Candidate>& list, int token);
// The dynamic temperature for candidates whose scores are logits. May be 0.
float dynamic_temperature(std::vector<Candidate>& list, const SamplingParams& params);

}  // namespace anabranch
