// A step of the engine: one pass of the model over tokens of several sequences, and the selection of their
// next tokens. submit() enqueues the pass, collect() waits for it and samples. Synchronous backends do the
// work inside submit().
//
// If the device chooses all tokens of a step, the next step may be submitted before they are collected: a
// part that follows one of the previous step takes its token from the device. If collect() then decides on
// another token, or that the sequence ends, that token's row is removed from the state again
// (SequenceState::take_back).
#pragma once

#include <exception>
#include <memory>
#include <span>
#include <vector>

#include "decode/sampler.h"
#include "engine/engine_model.h"
#include "engine/logits.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "ops/choose.h"

namespace anabranch {

// One sequence's part of a step.
struct StepPart {
  ScheduledTokens scheduled;
  Sequence* sequence;
  bool decodes = false;        // one token, and perhaps a draft after it
  bool follows = false;        // its token is the one that the previous step draws
  bool forced = false;         // the draft consists of forced tokens (Constraint::forced)
  Draft draft;                 // verified in the pass
  std::vector<Snapshot> kept;  // snapshots to take within the scheduled tokens; their lengths are set first
  int begin = 0;               // length of the state before the step
  int row = 0;                 // the part's first row in the batch
  size_t logit = 0;            // the part's first row of logits
  std::vector<int> sampled;
  bool right = false;    // the last sampled token equals the draft's token at that position
  bool changed = false;  // the last sampled token differs from the one that the device chose
  Ending ending = Ending::none;
  std::exception_ptr failure;  // affects this part only, in drafting or sampling
  int applied() const;         // rows whose tokens become part of the sequence
  bool samples() const { return scheduled.last && sequence->generates(); }
};

struct Step {
  StepPlan plan;
  std::vector<StepPart> parts;
  Tensor hidden, logits;                      // outputs of the pass
  std::unique_ptr<ops::ChosenTokens> chosen;  // null: the host samples all rows
  bool ahead = false;                         // the next step may be submitted before this one is collected
  bool fetched = false;                       // logits were copied to the host
  DraftTimes drafting;
  double started = 0, drafted = 0, submitted = 0, computed = 0;  // times
  double waited = 0;  // seconds that collect() waited for the tokens
  // When the step's time starts: when it was submitted, or when the previous step was delivered. And when its
  // round starts (the verification of a draft, or a plain token).
  double before = 0, round = 0;
};

class StepRunner {
 public:
  // overlap: steps may be submitted before the previous one is collected.
  StepRunner(EngineModel& model, bool overlap) : model_(model), overlap_(overlap) {}

  // Makes a sequence's part. The sequence must have a state and constraints.
  static StepPart part_of(const ScheduledTokens& scheduled, Sequence& sequence);
  // Whether these sequences may run in a step that is submitted before their tokens of the previous step are
  // collected: the host needs none of these tokens for a decision, and there would be no draft.
  bool may_follow(std::span<Sequence* const> sequences, const StepLoad& load);
  // Whether the sequence ends with its next token, whichever that is.
  bool ends_next(const Sequence& sequence) const { return tokens_left(sequence) <= 1; }
  // Makes the drafts of the decoding parts, and enqueues the pass over all parts. before: the previous step,
  // if it is not collected yet; then nothing is drafted. If it throws, the states of all parts may be half
  // advanced.
  void submit(Step& step, const Step* before = nullptr);
  // Waits for the pass, samples, applies the constraints, and commits the states. Throws as submit().
  void collect(Step& step);
  // Gives the part's drafters the hidden states of rows [row, until) of the batch, then sets row to until.
  void learn(const Step& step, StepPart& part, int& row, int until, bool busy);
  // Records the cost of the part's draft and how much of it was accepted. delivered: when the tokens were
  // delivered.
  void observe(const Step& step, StepPart& part, double delivered);
  // Records the cost of the whole step.
  void observe(const Step& step);

 private:
  DraftTimes draft(Step& step);
  DraftJob draft_job_of(Sequence& sequence, int drawing) const;
  void add_rows(Batch& batch, StepPart& part, const Step* before);
  void choose(Step& step);
  void take_tokens(StepPart& part, Logits& logits);
  void read_prompt(const Step& step, StepPart& part);
  void pool(const Step& step, StepPart& part);
  void judge_prompt(const Step& step, StepPart& part);
  Drawn choose_next(Sequence& sequence, Logits& logits, size_t row);
  Ending accept(Sequence& sequence, const Drawn& drawn);
  int tokens_left(const Sequence& sequence) const;
  int most_drafts(const Sequence& sequence, int drawing) const;

  EngineModel& model_;
  bool overlap_;
};

}  // namespace anabranch
