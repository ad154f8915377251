// What `anabranch calibrate` measures and chooses (models/calibration.h is what it keeps): searches as pure
// functions, and the passes over text that they ask for.
//
// Costs are shares of a plain decoding pass, by bytes of weights read. Agreement is how often a draft's most
// likely token is the full model's, given the text so far.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "models/model.h"

namespace anabranch {

// Text to measure on; the model is asked for its tokens from `first` (>= 1) on.
struct Passage {
  std::vector<int> tokens;
  int first = 1;
};

struct DraftCosts {
  std::vector<double> layers;
  double head = 0;  // over the whole vocabulary
  double mtp = 0;   // without head; 0: none
};
DraftCosts draft_costs(const Model::PartBytes& bytes);

// Tokens a second with drafts, against plain decoding: the largest over k of
//   (1 + a + a^2 + ... + a^k) / (verify(k + 1) + k * cost),
// a the agreement, cost that of one draft, and verify(rows) = 1 + 0.15 (rows - 1) a pass over rows tokens
// (Leviathan et al. 2023, "Fast inference from transformers via speculative decoding", theorem 3.8, with
// rows that cost something).
double expected_rate(double agreement, double cost);

// Tokens that drafts are chosen from.
struct VocabSize {
  int size = 0;
  double coverage = 0;  // share of the passages' tokens, by ids chosen from other passages
  double rate = 0;      // of a draft that is right whenever it can be seven times in ten
};
struct VocabSearch {
  std::vector<VocabSize> sizes;
  int best = 0;          // of sizes
  std::vector<int> ids;  // ascending; sizes[best].size of them
};
// Ids by how often they occur in the passages, then from 0 up (merges are numbered by how early they were
// learnt), and `always`. cost(size): of one draft. Throws unless there are two passages at least.
VocabSearch search_vocab(std::span<const Passage> passages, int vocab, const std::vector<int>& always,
                         const std::function<double(int size)>& cost);

// Early exits: agreement[i] is that after layer i. The last is the whole model and no draft.
struct ExitSearch {
  std::vector<double> rates;
  int best = -1;  // the last layer that is run; -1: there is none to leave out
};
ExitSearch search_exit(std::span<const double> agreement, const DraftCosts& costs, double head_cost);

// Layers to leave out, by what agreement(layers that are run) says. All are tried alone; then they go one by
// one, each time the best of the next few in the order that this gave, until the rate falls for good.
struct SkipSearch {
  struct Step {
    int layer = 0;
    double agreement = 0, rate = 0;  // without it and those before it
  };
  std::vector<double> alone;  // agreement without this layer only
  std::vector<Step> steps;
  int best = 0;  // so many steps are taken; 0: none pays more than another
};
SkipSearch search_skip(const DraftCosts& costs, double head_cost,
                       const std::function<double(std::span<const int> layers)>& agreement);

// The model on the passages.
struct TextMeasure {
  std::vector<int> best;               // the most likely token at each place asked for, passage by passage
  std::vector<double> exit_agreement;  // after each layer, by draft_logits(), on every other passage
  double perplexity = 0;
};
TextMeasure measure_text(const Model& model, std::span<const Passage> passages, bool exits);

// How often two measures of the same passages say the same token.
double agreement_of(const TextMeasure& a, const TextMeasure& b);

// Drafts by some of the layers, as LayersDrafter makes them: on trial, after text that all layers have seen.
class DraftTrials {
 public:
  // full: measure_text() of the same. Keeps states of places spread over the passages.
  DraftTrials(const Model& model, std::span<const Passage> passages, const TextMeasure& full);
  double agreement(std::span<const int> layers);
  int tokens() const { return static_cast<int>(expected_.size()); }  // that each agreement is counted on

 private:
  struct Place {
    SequenceState state;
    std::vector<int> tokens;  // that follow, on trial
  };
  const Model& model_;
  std::vector<Place> places_;
  std::vector<int> expected_;  // after each place's tokens
};

}  // namespace anabranch
