// One sequence's speculation: its drafters and its controller.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "decode/batch_planner.h"
#include "decode/drafters.h"
#include "decode/recent_answers.h"
#include "decode/spec_controller.h"

namespace anabranch {

// A model's draft sources and speculation statistics. One per engine; outlives the speculators.
struct SpecResources {
  const Model* model = nullptr;
  const Model* draft_model = nullptr;  // may be null
  // The layers of the model that a self-speculative draft runs, ascending; empty: not available.
  std::vector<int> exit_runs, skip_runs;
  std::array<bool, kDraftSources>
      only_on_request{};  // sources that cannot pay: the controller never tries them
  SpecCosts costs;
  BatchPlanner planner{costs};
  RecentAnswers answers;

  bool has(DraftSource source) const;
};

// A draft: guessed next tokens.
struct Draft {
  DraftSource source = DraftSource::none;
  std::vector<int> tokens;  // empty: decode plainly
  int ngram_match = 0;      // as in RoundLimits
  double seconds = 0;       // time to make the draft
};

class Speculator;

// A sequence in Speculator::draft_together().
struct DraftJob {
  Speculator* speculator;
  DraftRequest request;  // of at most request.count tokens
  Draft draft = {};      // the result
};

// The time and the source of a step's drafts, for BatchResult.
struct DraftTimes {
  DraftSource source = DraftSource::none;
  int chains = 0, levels = 0;
  double seconds = 0;  // without Drafter::prepare()
};

class Speculator {
 public:
  // mode.source must be among the resources. salt: drafts may be copied from answers to earlier requests with
  // this salt, and later requests with it may copy from this answer; unset: only from the sequence's own
  // tokens. images: the sequence's images, or null, as in make_mtp_drafter(). A draft model has no use for
  // prompts with images.
  Speculator(SpecResources& resources, const SpecMode& mode, std::optional<std::string> salt = std::nullopt,
             const PromptImages* images = nullptr);

  // Reports that the sequence has ended; `answer` is its tokens after the prompt. Later requests may copy
  // from them.
  void ended(std::span<const int> answer);

  // Reports the hidden states of committed tokens, in order. tokens: all known tokens. busy: other sequences
  // run as well.
  void applied(const HiddenRows& hidden, std::span<const int> tokens, bool busy);

  // See Drafter; calls these functions of the sequence's drafters.
  void resume(int length, const MtpSnapshot* saved);
  std::optional<MtpSnapshot> save(std::span<const int> tokens);

  // Makes the drafts of a step in shared passes. sequences: the number that decode in the step, with or
  // without a draft. measured: the step's time will be known.
  static DraftTimes draft_together(SpecResources& resources, std::span<DraftJob> jobs, int sequences,
                                   bool measured);

  // Whether the tokens known so far would make draft_together() draft. If not, the round is a plain one.
  static bool would_draft(SpecResources& resources, std::span<DraftJob> jobs, int sequences, bool measured);

  // Reports the result of the round that began with `draft`: its first `accepted` tokens are right. ended:
  // the request ended, so later draft tokens were not judged. verify_s: as in RoundResult. shared: other
  // sequences decoded in the same pass.
  void observe(const Draft& draft, int accepted, double verify_s, bool ended, bool shared);

  const SpecCounters& counters() const { return controller_.counters(); }

 private:
  struct Group;
  static std::vector<DraftDecision> choose(SpecResources& resources, std::span<DraftJob> jobs, int sequences,
                                           bool measured);
  bool may_use(DraftSource source) const;
  bool can_draft(DraftSource source, size_t tokens);
  Drafter& drafter(DraftSource source);
  void guarded(DraftSource source, const std::function<void()>& work);
  void give_up(DraftSource source, const std::exception& e);
  void follow_choice(DraftJob& job, const DraftDecision& choice, std::span<Group> groups);
  static void run(Group& group, DraftSource source, DraftTimes& times);
  // The limits of this round. Also finds the n-gram proposal.
  RoundLimits limits_of(const DraftRequest& request);
  void find_copy(const DraftRequest& request);

  SpecResources& resources_;
  SpecMode mode_;
  SpecController controller_;
  std::optional<std::string> salt_;
  const PromptImages* images_;
  SuffixIndex own_;                                               // the sequence's tokens
  std::vector<int> copy_;                                         // the n-gram proposal of limits_of()
  int copy_match_ = 0;                                            // RoundLimits::ngram_match
  std::array<std::unique_ptr<Drafter>, kDraftSources> drafters_;  // made when first needed
  std::array<bool, kDraftSources> failed_{};                      // sources that failed are not used again
};

}  // namespace anabranch
