// The measurements and searches of `anabranch calibrate` (models/calibration.h has its result). The searches
// are pure functions; the passes over text are separate.
//
// Costs are relative to a plain decoding pass, by bytes of weights read. Agreement is how often the most
// likely token of a draft equals that of the full model, given the same text.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "models/model_bytes.h"

namespace anabranch {

// Text to measure on; predictions are measured for its tokens from `first` (>= 1) on.
struct Passage {
  std::vector<int> tokens;
  int first = 1;
};

struct DraftCosts {
  std::vector<double> layers;
  double head = 0;  // over the whole vocabulary
  double mtp = 0;   // without head; 0: none
};
DraftCosts draft_costs(const ModelBytes& bytes);

// The speed-up of drafts over plain decoding: the maximum over k of
//   (1 + a + a^2 + ... + a^k) / (verify(k + 1) + k * cost),
// a the agreement, cost that of one draft, and verify(rows) = 1 + 0.15 (rows - 1) a pass over rows tokens
// (Leviathan et al. 2023, "Fast inference from transformers via speculative decoding", theorem 3.8, with
// rows that cost something).
double expected_rate(double agreement, double cost);

// A size of the draft vocabulary.
struct VocabSize {
  int size = 0;
  double coverage = 0;  // share of the passages' tokens that are in a vocabulary chosen from other passages
  double rate = 0;      // speed-up if 7 of 10 drafts whose token is in the vocabulary are right
};
struct VocabSearch {
  std::vector<VocabSize> sizes;
  int best = 0;          // index into sizes
  std::vector<int> ids;  // ascending; sizes[best].size of them
};
// Chooses the ids in `always`, then the ids that occur in the passages, by frequency, then the others from 0
// up, because BPE numbers merges in the order learnt. cost(size): cost of one draft. Throws unless there are
// at least two passages.
VocabSearch search_vocab(std::span<const Passage> passages, int vocab, const std::vector<int>& always,
                         const std::function<double(int size)>& cost);

// Early exits: agreement[i] is the agreement after layer i. The last layer is the whole model and no draft.
struct ExitSearch {
  std::vector<double> rates;
  int best = -1;  // the last layer that is run; -1: there is none to leave out
};
ExitSearch search_exit(std::span<const double> agreement, const DraftCosts& costs, double head_cost);

// Chooses layers to leave out by agreement(layers to run). First each layer is left out alone, which gives an
// order. Then layers are removed one by one, each time the best of the next few in that order, until the rate
// no longer rises.
struct SkipSearch {
  struct SkippedLayer {
    int layer = 0;
    double agreement = 0, rate = 0;  // without it and those before it
  };
  std::vector<double> alone;          // agreement without this layer only
  std::vector<SkippedLayer> skipped;  // in the order in which they are left out
  int best = 0;                       // how many of them to leave out; 0: leaving out layers does not pay
};
SkipSearch search_skip(const DraftCosts& costs, double head_cost,
                       const std::function<double(std::span<const int> layers)>& agreement);

// Measurements of the model on the passages.
struct TextMeasure {
  std::vector<int> best;               // the most likely token at each measured position, passage by passage
  std::vector<double> exit_agreement;  // after each layer, by draft_logits(), on every other passage
  double perplexity = 0;
};
TextMeasure measure_text(const Model& model, std::span<const Passage> passages, bool exits);

// The share of positions at which two measurements of the same passages have the same most likely token.
double agreement_of(const TextMeasure& a, const TextMeasure& b);

// Measures how often drafts by some of the layers, made as by LayersDrafter, agree with the full model. The
// state before each draft comes from all layers.
class DraftAgreement {
 public:
  // full: measure_text() of the same passages. Keeps states at positions spread over the passages.
  DraftAgreement(const Model& model, std::span<const Passage> passages, const TextMeasure& full);
  double agreement(std::span<const int> layers);
  // The number of tokens on which agreement() compares.
  int tokens() const { return static_cast<int>(expected_.size()); }

 private:
  struct TestPoint {
    SequenceState state;
    std::vector<int> tokens;  // the following tokens, to be run as draft tokens
  };
  const Model& model_;
  std::vector<TestPoint> points_;
  std::vector<int> expected_;  // the full model's most likely token after each token of each point
};

}  // namespace anabranch
