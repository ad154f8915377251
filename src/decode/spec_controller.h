// Which drafter, and how many drafts, each round: pure policy. No arrays, no clock, no random numbers, so the
// same results observed give the same choices.
//
// The controller maximises, over sources and depths n (0 is one), expected tokens per cost
//     rate = (1 + sum_{i<=n} prod_{j<=i} p_j) / (verify(n + 1) + draft(source, n))
// where p_j is the chance that draft j is accepted given that those before it were. All costs are in units of
// one plain round, so that the rate is the speed-up over plain decoding, and a machine that slows down as a
// whole changes no choice. One SpecCosts belongs to a model (an engine's), one SpecController to a sequence.
// Not thread-safe; a SpecCosts outlives its controllers.
#pragma once

#include <array>

#include "decode/speculation.h"

namespace anabranch {

// Cost by count (rows of a pass, or drafts made) in plain rounds, learnt: a point is known once its weight
// is > 0. See cost_at() in the .cc for what is said of unknown points.
struct CostCurve {
  std::array<double, kMaxDraft + 2> cost{}, weight{};  // [count]; weight: samples, capped
  bool operator==(const CostCurve&) const = default;
};

// Decayed counts by position: draft i + 1 was tried (all before it accepted), and accepted.
struct AcceptanceCounts {
  std::array<double, kMaxDraft> tried{}, accepted{};
  bool operator==(const AcceptanceCounts&) const = default;
};

// Acceptance is counted by class: n-gram proposals by length of match, then the other sources.
constexpr int kNgramClasses = 4;  // matches of 1-2, 3-4, 5-8, more
constexpr int kDraftClasses = kNgramClasses + kDraftSources - 2;
int draft_class(DraftSource source, int ngram_match);  // source is not none

// All that is known of a model; what spec_stats.h keeps between runs.
struct SpecStats {
  double round_s = 0, round_weight = 0;        // seconds of a plain round, and samples behind it (capped)
  CostCurve verify;                            // [rows]
  std::array<CostCurve, kDraftSources> draft;  // [source][drafts]; `none` unused
  std::array<AcceptanceCounts, kDraftClasses> acceptance;
  double exploration;  // plain rounds that may yet be lost to trying things out
  SpecStats();
  bool operator==(const SpecStats&) const = default;
};

class SpecCosts {
 public:
  explicit SpecCosts(SpecStats stats = {}) : stats_(stats) {}

  // In plain rounds.
  double verify_cost(int rows) const;                       // rows 1..16
  double draft_cost(DraftSource source, int drafts) const;  // drafts 0..15
  // The model-wide chance that draft `position` (1..15) is accepted, those before it being accepted.
  double acceptance(int draft_class, int position) const;
  // In seconds; 0 as long as nothing was measured.
  double verify_s(int rows) const { return stats_.round_s * verify_cost(rows); }

  const SpecStats& stats() const { return stats_; }

 private:
  friend class SpecController;
  void observe(const RoundResult& result);
  SpecStats stats_;
};

class SpecController {
 public:
  SpecController(SpecCosts& costs, SpecMode mode);

  RoundChoice choose(const RoundLimits& limits);
  // Once after each round, plain ones too, in order.
  void observe(const RoundResult& result);
  const SpecCounters& counters() const { return counters_; }

 private:
  SpecCosts& costs_;
  SpecMode mode_;
  SpecCounters counters_;
};

}  // namespace anabranch
