// Chooses the drafter and the number of drafts for each round. Pure policy: no arrays, no clock, no random
// numbers, so the same observations give the same choices.
//
// The controller maximises, over sources and depths n (0 is one), expected tokens per cost
//     rate = (1 + sum_{i<=n} prod_{j<=i} p_j) / (verify(n + 1) + draft(source, n))
// where p_j is the chance that draft j is accepted if all before it were. Costs are in units of one plain
// round, so the rate is the speed-up over plain decoding, and a machine that slows down as a whole changes no
// choice. This is for a sequence that decodes alone; batch_planner.h chooses for several that share a pass.
// An engine has one SpecCosts, and a sequence one SpecController. Not thread-safe; a SpecCosts outlives its
// controllers.
#pragma once

#include <array>

#include "decode/speculation.h"

namespace anabranch {

// Seconds by count (rows of a pass, or drafts made). weight: number of samples, capped; 0 = never measured.
struct CostCurve {
  std::array<double, kMaxDraft + 2> seconds{}, weight{};  // [count]
  bool operator==(const CostCurve&) const = default;
};

// Decayed counts by position: how often draft i + 1 was tried (all before it were accepted), and accepted.
struct AcceptanceCounts {
  std::array<double, kMaxDraft> tried{}, accepted{};
  bool operator==(const AcceptanceCounts&) const = default;
};

// Acceptance is counted by class: n-gram proposals by length of match, then each other source.
constexpr int kNgramClasses = 4;  // matches of at most 2, 4, 8 tokens, and more
constexpr int kDraftClasses = kNgramClasses + kDraftSources - 2;
int draft_class(DraftSource source, int ngram_match);  // source is not none

// [i]: the chance that draft i + 1 is accepted if all before it were.
using Chances = std::array<double, kMaxDraft>;

// The statistics of a model; spec_stats.h keeps them between runs.
struct SpecStats {
  CostCurve verify;  // [rows], from 1 on
  // [source][drafts], from 1 on; only of mtp and the sources after it.
  std::array<CostCurve, kDraftSources> draft;
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
  Chances acceptance(int draft_class) const;                   // of all sequences
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

  DraftDecision choose(const RoundLimits& limits);
  // Call when the choice was not used and choose() will be called again: the next observed round then does
  // not count as a trial.
  void drop_choice() { trying_ = -1; }
  // Call once after each round, including plain ones.
  void observe(const RoundResult& result);
  // Call instead after a round whose pass was shared with other sequences: acceptance is counted, times are
  // not.
  void observe_shared(const RoundResult& result);
  const SpecMode& mode() const { return mode_; }
  const SpecCounters& counters() const { return counters_; }
  Chances acceptance(int draft_class) const;  // in this sequence
  // The same, recomputed only now and then, for use in every step.
  const Chances& recent_acceptance(int draft_class) const;

 private:
  // A choice and its expected result; plain decoding by default.
  struct Option {
    DraftDecision choice;
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
  // An alternative that is tried now and then: each class of drafts, plain decoding, and one draft more than
  // the best choice.
  struct Arm {
    long due;      // the first round in which it may be tried
    int interval;  // rounds to wait after a trial that does not pay
  };
  static constexpr int kPlainArm = 0, kFirstClassArm = 1, kDeeperArm = kFirstClassArm + kDraftClasses,
                       kArms = kDeeperArm + 1;
  static int arm_of(DraftSource source, int ngram_match);

  Options options(DraftSource source, const RoundLimits& limits) const;
  Option best_option(const AllOptions& all) const;
  Option arm_option(int arm, const AllOptions& all, const Option& best, int ngram_match) const;
  void hold(const DraftDecision& choice, int ngram_match);

  SpecCosts& costs_;
  SpecMode mode_;
  SpecCounters counters_;
  std::array<AcceptanceCounts, kDraftClasses> acceptance_;
  // A cached result of acceptance(), and the rounds of the class counted by then; -1: must be computed again.
  struct Recent {
    long counted = -1;
    Chances chances;
  };
  mutable std::array<Recent, kDraftClasses> recent_;
  std::array<Arm, kArms> arms_;
  DraftDecision held_;    // the last best choice, not counting n-gram drafts
  int trying_ = -1;       // the arm that this round tries; -1: none
  double best_rate_ = 1;  // expected rate of the best choice in this round

  long round_ = 0;
};

}  // namespace anabranch
