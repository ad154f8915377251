// Which drafter, and how many drafts, each round: pure policy. No arrays, no clock, no random numbers, so the
// same results observed give the same choices.
//
// The controller maximises, over sources and depths n (0 is one), expected tokens per cost
//     rate = (1 + sum_{i<=n} prod_{j<=i} p_j) / (verify(n + 1) + draft(source, n))
// where p_j is the chance that draft j is accepted given that those before it were. All costs are in units of
// one plain round, so that the rate is the speed-up over plain decoding, and a machine that slows down as a
// whole changes no choice. This is for a sequence that decodes alone; batch_planner.h chooses for several
// that share a pass. One SpecCosts belongs to a model (an engine's), one SpecController to a sequence. Not
// thread-safe; a SpecCosts outlives its controllers.
#pragma once

#include <array>

#include "decode/speculation.h"

namespace anabranch {

// Seconds by count (rows of a pass, or drafts made). weight: samples behind it, capped; 0 = never tried.
struct CostCurve {
  std::array<double, kMaxDraft + 2> seconds{}, weight{};  // [count]
  bool operator==(const CostCurve&) const = default;
};

// Decayed counts by position: draft i + 1 was judged (all before it were accepted), and accepted.
struct AcceptanceCounts {
  std::array<double, kMaxDraft> tried{}, accepted{};
  bool operator==(const AcceptanceCounts&) const = default;
};

// Acceptance is counted by class: n-gram proposals by length of match, then each other source.
constexpr int kNgramClasses = 4;  // matches of at most 2, 4, 8 tokens, and more
constexpr int kDraftClasses = kNgramClasses + kDraftSources - 2;
int draft_class(DraftSource source, int ngram_match);  // source is not none

// [i]: the chance that draft i + 1 is accepted, those before it being accepted.
using Chances = std::array<double, kMaxDraft>;

// What is known of a model; spec_stats.h keeps it between runs.
struct SpecStats {
  CostCurve verify;                            // [rows], from 1 on
  std::array<CostCurve, kDraftSources> draft;  // [source][drafts], from 1 on; mtp and later ones
  std::array<AcceptanceCounts, kDraftClasses> acceptance;
  bool operator==(const SpecStats&) const = default;
};

class SpecCosts {
 public:
  using Curve = std::array<double, kMaxDraft + 2>;  // [count], in plain rounds

  explicit SpecCosts(const SpecStats& stats = {});

  double round_s() const { return round_s_; }                  // of a plain round; 0: nothing measured yet
  const Curve& verify_costs() const { return verify_costs_; }  // [rows], from 1 on; [1] is 1
  Curve draft_costs(DraftSource source) const;                 // [drafts], from 0 on
  Chances acceptance(int draft_class) const;                   // over all sequences
  const SpecStats& stats() const { return stats_; }

 private:
  friend class SpecController;
  void observe_times(const RoundResult& result);
  void observe_verify(int rows, double seconds);
  void fit_verify();

  SpecStats stats_;
  std::array<long, kDraftClasses> counted_{};  // rounds
  double round_s_ = 0;
  Curve verify_costs_;
  double exploration_, credit_;  // plain rounds; see SpecController::choose
};

class SpecController {
 public:
  SpecController(SpecCosts& costs, SpecMode mode);

  RoundChoice choose(const RoundLimits& limits);
  // Once after each round, plain ones too.
  void observe(const RoundResult& result);
  // Instead, after a round whose pass other sequences shared: its acceptance counts, its times say nothing.
  void observe_shared(const RoundResult& result);
  const SpecMode& mode() const { return mode_; }
  const SpecCounters& counters() const { return counters_; }
  Chances acceptance(int draft_class) const;  // in this sequence
  // The same as it was not long ago, for who asks every step.
  const Chances& recent_acceptance(int draft_class) const;

 private:
  // A choice and what is expected of it; plain decoding by default.
  struct Option {
    RoundChoice choice;
    double tokens = 1, cost = 1;  // cost in plain rounds
    double rate() const { return tokens / cost; }
  };
  // A source's depths in this round.
  struct Options {
    int longest = 0;                       // 0: it cannot draft now
    std::array<Option, kMaxDraft + 1> at;  // [depth], from 1 on
    Option best;
  };
  using AllOptions = std::array<Options, kDraftSources>;
  // What is tried now and then although something else seems best: each class of drafts, plain decoding, and
  // one draft more than seems best.
  struct Arm {
    long due;      // the round from which on it may be tried
    int interval;  // rounds to wait after a try that does not pay
  };
  static constexpr int kPlainArm = 0, kFirstClassArm = 1, kDeeperArm = kFirstClassArm + kDraftClasses,
                       kArms = kDeeperArm + 1;
  static int arm_of(DraftSource source, int ngram_match);

  Options options(DraftSource source, const RoundLimits& limits) const;
  Option best_option(const AllOptions& all) const;
  Option arm_option(int arm, const AllOptions& all, const Option& best, int ngram_match) const;
  void hold(const RoundChoice& choice, int ngram_match);

  SpecCosts& costs_;
  SpecMode mode_;
  SpecCounters counters_;
  std::array<AcceptanceCounts, kDraftClasses> acceptance_;
  // acceptance() when the class had been counted so often, in all sequences; -1: to be worked out again.
  struct Recent {
    long counted = -1;
    Chances chances;
  };
  mutable std::array<Recent, kDraftClasses> recent_;
  std::array<Arm, kArms> arms_;
  RoundChoice held_;      // the last choice that was thought best, n-gram aside
  int trying_ = -1;       // the arm tried in this round
  double best_rate_ = 1;  // of what was thought best in this round

  long round_ = 0;
};

}  // namespace anabranch
