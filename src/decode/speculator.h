// One sequence's speculation: its drafters and its controller.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

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

  bool has(DraftSource source) const;
};

// Tokens that may come next.
struct Draft {
  DraftSource source = DraftSource::none;
  std::vector<int> tokens;  // empty: decode plainly
  int ngram_match = 0;
  double seconds = 0;  // that drafting took
};

class Speculator {
 public:
  // mode.source must be among the resources.
  Speculator(SpecResources& resources, const SpecMode& mode);

  // Tokens were applied for good: their hidden states, in order; `tokens` as far as known.
  void applied(const mx::array& hidden, std::span<const int> tokens);

  // As of Drafter, for the sequence.
  void resume(int length, const MtpSnapshot* saved);
  std::optional<MtpSnapshot> save(std::span<const int> tokens);

  // A draft of at most request.count tokens, state as in DraftRequest; others: rows of other sequences in the
  // pass.
  Draft propose(const DraftRequest& request, int others = 0);
  // How the round that began with `draft` ended; the first `accepted` of its tokens are right. ended: by the
  // end of the request, so that what followed was not judged. verify_s, others: as in RoundResult.
  void observe(const Draft& draft, int accepted, double verify_s, bool ended, int others = 0);

  const SpecCounters& counters() const { return controller_.counters(); }

 private:
  bool may_use(DraftSource source) const;
  bool can_draft(DraftSource source, size_t tokens);
  Drafter& drafter(DraftSource source);
  void guarded(DraftSource source, const std::function<void()>& work);
  std::vector<int> run_drafter(const RoundChoice& choice, const DraftRequest& request, double& seconds);

  SpecResources& resources_;
  SpecMode mode_;
  SpecController controller_;
  NgramIndex ngrams_;
  std::array<std::unique_ptr<Drafter>, kDraftSources> drafters_;  // made when first needed
  std::array<bool, kDraftSources> failed_{};                      // not asked again
};

}  // namespace anabranch
