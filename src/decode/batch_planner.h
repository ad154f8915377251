// Which sequences of a batch draft, with what, and how far: pure policy. No arrays, no clock, no random
// numbers, so the same results observed give the same choices.
//
// All sequences that decode share a pass, so the planner maximises what clients see together:
//     rate = (sequences + expected accepted drafts) / (pass(sequences, rows of drafts) + drafting)
// A draft row is worth its place when the chance that it is reached and right exceeds its share of the rate.
// pass() and drafting are what such steps took lately, all work between two steps included, learnt for each
// number of sequences: a row that costs nothing beside 8 sequences may double a pass beside 32.
// spec_controller.h chooses for a sequence that decodes alone.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "decode/spec_controller.h"

namespace anabranch {

// A sequence that may draft in this step.
struct BatchSeat {
  const SpecController* controller;  // its mode and acceptance
  RoundLimits limits;
};

// How a step with at least two decoding sequences went.
struct BatchStep {
  int sequences = 0;                       // that decoded, drafting or not
  int drafted = 0;                         // rows of drafts, of all
  DraftSource source = DraftSource::none;  // the drafter that ran a model; none: none did, or several
  int chains = 0, levels = 0;              // sequences it drafted for; tokens of the longest of these drafts
  double draft_s = 0;                      // drafting
  double rest_s = 0;                       // all the rest of the step; 0: says nothing (prompts were read)
};

class BatchPlanner {
 public:
  // costs: what is known of single sequences; outlives the planner.
  explicit BatchPlanner(const SpecCosts& costs) : costs_(costs) {}

  // One choice per seat. sequences: that decode in this step, >= seats.size() and >= 2. measured: the step's
  // time will be known, so something else than what seems best may be tried.
  std::vector<RoundChoice> choose(int sequences, std::span<const BatchSeat> seats, bool measured);
  void observe(const BatchStep& step);
  // Drafts of this source have not been worth it beside others for a while.
  bool parked(DraftSource source) const;

 private:
  static constexpr int kRowClasses = 20, kLevels = 6, kBuckets = 32;
  // Steps with about `rows` rows of drafts took so long. weight: samples behind it, capped; 0: never seen.
  struct Point {
    double rows = 0, seconds = 0, weight = 0;
  };
  // Drafting for about `chains` sequences: the first level, and each further one.
  struct ChainCost {
    double first_s = 0, next_s = 0, chains = 0, weight = 0;
  };
  struct Probe {
    long due;      // the step from which on it may be tried
    int interval;  // steps to wait after a try that does not pay
  };
  // What is known of steps with so many sequences.
  struct Load {
    int sequences = 0;  // 0: nothing is known
    std::array<Point, kRowClasses> points{};
    std::vector<Point> line;  // through the points; never falls
    std::array<ChainCost, kDraftSources> chains{};
    // By kind: plain, n-grams only, with a source's chains; and more rows than seem best.
    std::array<Probe, kDraftSources + 1> probes{};
    int held = 0;            // the kind that was best lately
    bool inherited = false;  // from another load: no step of this one was seen
    long steps = 0;
    double allowance = 0;  // seconds that trying may lose

    double plain_s() const { return line.front().seconds; }
    double pass_s(double rows) const;
    void fit();
  };
  struct Seat {
    RoundChoice fixed;                            // what was asked for: source and depth
    int ngram = 0;                                // length of the proposal at hand
    std::array<double, kMaxDraft> ngram_paths{};  // chance that drafts 1 .. i + 1 are all right
    double ngram_tokens = 0;                      // their sum
    std::array<int, kDraftSources> levels{};      // that the source may draft
    std::array<std::array<double, kLevels>, kDraftSources> paths{};
  };
  // How far drafts go, and what is expected of it.
  struct Cut {
    double chance = 2;  // drafts whose chance is lower are not made
    int rows = 0;       // of drafts
    double tokens = 0, seconds = 0;
    double rate() const { return tokens / seconds; }
  };
  // A way to spend the step.
  struct Plan {
    DraftSource source = DraftSource::none;  // of chains
    int levels = 0, chains = 0;
    Cut best, further;  // further: some more rows than the best, a number that was hardly ever seen
  };
  // What those rows that are not the planner's to choose add to each plan.
  struct Base {
    int rows = 0;
    double tokens = 0, seconds = 0;
  };

  Load& load_of(int sequences);
  Seat seat_of(const BatchSeat& seat, const std::array<bool, kDraftSources>& considered) const;
  Base base_of(const Load& load, int sequences) const;
  std::array<Plan, kDraftSources> plans_of(const Load& load, const Base& base) const;
  double chain_s(const Load& load, DraftSource source, int levels, int chains) const;
  Plan plan(const Load& load, const Base& base, DraftSource source, int levels) const;
  bool takes_chain(const Seat& seat, const Plan& plan) const;
  RoundChoice choice(const Seat& seat, const Plan& plan) const;
  Plan choose_plan(Load& load, const std::array<Plan, kDraftSources>& plans, bool measured);
  static void observe_pass(Load& load, const BatchStep& step);
  void observe_chains(Load& load, const BatchStep& step) const;
  void settle_try(Load& load, double seconds);

  const SpecCosts& costs_;
  std::vector<Load> loads_;  // by class of the number of sequences
  std::vector<Seat> seats_;  // of this step
  int trying_ = -1;          // the kind that is tried in this step
  double best_rate_ = 0, expected_tokens_ = 0;
  long steps_ = 0;
  std::array<long, kDraftSources> used_{};  // the step when a source was last thought worth it
};

}  // namespace anabranch
