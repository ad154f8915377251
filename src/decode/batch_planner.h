// Chooses which sequences of a batch draft, from which source, and how many tokens. Pure policy: no arrays,
// no clock, no random numbers, so the same observations give the same choices.
//
// All sequences that decode share a pass, so the planner maximises what clients see together:
//     rate = (sequences + expected accepted drafts) / (pass(sequences, rows of drafts) + drafting)
// A draft row is worth making when the chance that it is reached and right exceeds its cost times that rate.
// pass() and drafting are recent times of such steps, including all work between two steps. They are learnt
// for each number of sequences: a row that costs nothing with 8 sequences may double the pass with 32.
// spec_controller.h chooses for a sequence that decodes alone.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "decode/spec_controller.h"

namespace anabranch {

// A sequence that may draft in this step.
struct DraftCandidate {
  const SpecController* controller;  // its mode and acceptance
  RoundLimits limits;
};

// The result of a step with at least two decoding sequences.
struct BatchResult {
  int sequences = 0;  // sequences that decoded, with or without drafts
  int drafted = 0;    // draft rows of all sequences
  // The source that ran a model; none: no source ran one, or several did.
  DraftSource source = DraftSource::none;
  int chains = 0, levels = 0;  // sequences it drafted for; length of the longest of these drafts
  double draft_s = 0;          // time of drafting
  double rest_s = 0;           // time of the rest of the step; 0: unusable, because prompts were read
};

class BatchPlanner {
 public:
  // costs: the costs of single sequences; outlives the planner.
  explicit BatchPlanner(const SpecCosts& costs) : costs_(costs) {}

  // One choice for each candidate. sequences: the number that decode in this step, >= candidates.size() and
  // >= 2. measured: the step's time will be known, so an alternative to the best choice may be tried.
  std::vector<DraftDecision> choose(int sequences, std::span<const DraftCandidate> candidates, bool measured);
  // Call when the choices were not used and choose() will be called again: the next observed step then does
  // not count as a trial.
  void drop_choice() { trying_ = -1; }
  void observe(const BatchResult& step);
  // Whether drafts of this source have not paid for a while.
  bool parked(DraftSource source) const;

 private:
  static constexpr int kRowClasses = 20, kLevels = 6, kBuckets = 32;
  // The time of steps with about `rows` draft rows. weight: number of samples, capped; 0: never measured.
  struct Point {
    double rows = 0, seconds = 0, weight = 0;
  };
  // The time that a source's model takes to draft for about `chains` sequences: for the first token, and for
  // each further one. (A chain is the draft of one sequence, made token by token.)
  struct ChainCost {
    double first_s = 0, next_s = 0, chains = 0, weight = 0;
  };
  struct Probe {
    long due;      // the first step at which it may be tried
    int interval;  // steps to wait after a trial that does not pay
  };
  // The measured costs of steps with one class of sequence counts.
  struct Load {
    int sequences = 0;  // 0: nothing is known
    std::array<Point, kRowClasses> points{};
    std::vector<Point> line;  // monotone fit through the points
    std::array<ChainCost, kDraftSources> chains{};
    // When to try each kind of plan next: without drafts, n-grams only, chains of each source. The last entry
    // is for plans with more rows than the best one.
    std::array<Probe, kDraftSources + 1> probes{};
    int held = 0;            // the kind of plan that was best lately
    bool inherited = false;  // copied from another load; no step of this one was measured yet
    long steps = 0;
    double allowance = 0;  // seconds that trials may lose

    double plain_s() const { return line.front().seconds; }
    double pass_s(double rows) const;
    void fit();
  };
  struct SequenceEstimate {
    DraftDecision fixed;                          // source and depth, if the request fixes them
    int ngram = 0;                                // length of the available n-gram proposal
    std::array<double, kMaxDraft> ngram_paths{};  // chance that drafts 1 .. i + 1 are all right
    double ngram_tokens = 0;                      // sum of ngram_paths: the expected accepted tokens
    std::array<int, kDraftSources> levels{};      // tokens that each source may draft
    std::array<std::array<double, kLevels>, kDraftSources> paths{};
  };
  // A threshold that determines the lengths of all drafts, and the expected result.
  struct Cut {
    double chance = 2;  // draft rows with a lower chance are not made
    int rows = 0;       // draft rows
    double tokens = 0, seconds = 0;
    double rate() const { return tokens / seconds; }
  };
  // The drafts that a step could make.
  struct DraftPlan {
    DraftSource source = DraftSource::none;  // of the chains
    int levels = 0, chains = 0;
    Cut best, further;  // further: more rows than the best, a number that was hardly ever measured
  };
  // Rows, tokens and time of fixed drafts, which are part of every plan.
  struct Base {
    int rows = 0;
    double tokens = 0, seconds = 0;
  };

  Load& load_of(int sequences);
  SequenceEstimate estimate_of(const DraftCandidate& candidate,
                               const std::array<bool, kDraftSources>& considered) const;
  Base base_of(const Load& load, int sequences) const;
  std::array<DraftPlan, kDraftSources> plans_of(const Load& load, const Base& base) const;
  double chain_s(const Load& load, DraftSource source, int levels, int chains) const;
  DraftPlan plan(const Load& load, const Base& base, DraftSource source, int levels) const;
  bool takes_chain(const SequenceEstimate& estimate, const DraftPlan& plan) const;
  DraftDecision choice(const SequenceEstimate& estimate, const DraftPlan& plan) const;
  DraftPlan choose_plan(Load& load, const std::array<DraftPlan, kDraftSources>& plans, bool measured);
  static void observe_pass(Load& load, const BatchResult& step);
  void observe_chains(Load& load, const BatchResult& step) const;
  void observe_trial(Load& load, double seconds);

  const SpecCosts& costs_;
  std::vector<Load> loads_;                  // by class of the number of sequences
  std::vector<SequenceEstimate> estimates_;  // of this step
  int trying_ = -1;                          // the kind of plan that this step tries; -1: none
  double best_rate_ = 0, expected_tokens_ = 0;
  long steps_ = 0;
  std::array<long, kDraftSources> used_{};  // the last step in which each source was chosen as the best
};

}  // namespace anabranch
