// One sequence's speculation: its drafters and its controller.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "decode/batch_planner.h"
#include "decode/drafters.h"
#include "decode/ngram.h"
#include "decode/spec_controller.h"

namespace anabranch {

// What a model offers to speculate with; one per engine, outlives its sequences' speculators.
struct SpecResources {
  const Model* model = nullptr;
  const Model* draft_model = nullptr;  // may be null
  // The layers that a self-speculative draft runs, ascending, all of them the model's; empty: none.
  std::vector<int> exit_runs, skip_runs;
  std::array<bool, kDraftSources> only_on_request{};  // that cannot pay: not for the controller to try
  SpecCosts costs;
  BatchPlanner planner{costs};

  bool has(DraftSource source) const;
};

// Tokens that may come next.
struct Draft {
  DraftSource source = DraftSource::none;
  std::vector<int> tokens;  // empty: decode plainly
  int ngram_match = 0;
  double seconds = 0;  // that drafting took
};

class Speculator;

// A sequence's place in Speculator::draft_together().
struct SpecSeat {
  Speculator* speculator;
  DraftRequest request;  // of at most request.count tokens
  Draft draft = {};      // the result
};

// What drafting for a step took, and with what: for BatchStep.
struct DraftTimes {
  DraftSource source = DraftSource::none;
  int chains = 0, levels = 0;
  double seconds = 0;  // catching up not counted
};

class Speculator {
 public:
  // mode.source must be among the resources.
  Speculator(SpecResources& resources, const SpecMode& mode);

  // Tokens were applied for good: their hidden states, in order; `tokens` as far as known. busy: other
  // sequences run, too.
  void applied(const HiddenRows& hidden, std::span<const int> tokens, bool busy);

  // As of Drafter, for the sequence.
  void resume(int length, const MtpSnapshot* saved);
  std::optional<MtpSnapshot> save(std::span<const int> tokens);

  // Makes the drafts of a step, those of several sequences in shared passes. sequences: that decode in it,
  // seats or not; measured: its time will be known.
  static DraftTimes draft_together(SpecResources& resources, std::span<SpecSeat> seats, int sequences,
                                   bool measured);

  // How the round that began with `draft` ended; the first `accepted` of its tokens are right. ended: by the
  // end of the request, so that what followed was not judged. verify_s: as in RoundResult. shared: other
  // sequences decoded in the same pass.
  void observe(const Draft& draft, int accepted, double verify_s, bool ended, bool shared);

  const SpecCounters& counters() const { return controller_.counters(); }

 private:
  struct Group;
  bool may_use(DraftSource source) const;
  bool can_draft(DraftSource source, size_t tokens);
  Drafter& drafter(DraftSource source);
  void guarded(DraftSource source, const std::function<void()>& work);
  void give_up(DraftSource source, const std::exception& e);
  void follow_choice(SpecSeat& seat, const RoundChoice& choice, std::span<Group> groups);
  static void run(Group& group, DraftSource source, DraftTimes& times);
  // What this round allows; finds the n-gram proposal.
  RoundLimits limits_of(const DraftRequest& request);

  SpecResources& resources_;
  SpecMode mode_;
  SpecController controller_;
  NgramIndex ngrams_;
  NgramIndex::Match match_;                                       // of the last limits_of()
  std::array<std::unique_ptr<Drafter>, kDraftSources> drafters_;  // made when first needed
  std::array<bool, kDraftSources> failed_{};                      // not asked again
};

}  // namespace anabranch
