// A step of the engine: one pass of the model over tokens of several sequences, and the selection of their
// next tokens. submit() enqueues the pass, collect() waits for it and samples. Synchronous backends do the
// work inside submit().
#pragma once

#include <exception>
#include <vector>

#include "engine/engine_model.h"
#include "engine/logits.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"

namespace anabranch {

// One sequence's part of a step.
struct StepPart {
  ScheduledTokens scheduled;
  Sequence* sequence;
  bool decodes = false;        // one token, and perhaps a draft after it
  bool forced = false;         // the draft consists of forced tokens (Constraint::forced)
  Draft draft;                 // verified in the pass
  std::vector<Snapshot> kept;  // snapshots to take within the scheduled tokens; their lengths are set first
  int begin = 0;               // length of the state before the step
  int row = 0;                 // the part's first row in the batch
  size_t logit = 0;            // the part's first row of logits
  std::vector<int> sampled;
  bool right = false;  // the last sampled token equals the draft's token at that position
  Ending ending = Ending::none;
  std::exception_ptr failure;  // of this part alone, in drafting or sampling
  int applied() const;         // rows whose tokens become part of the sequence
};

struct Step {
  StepPlan plan;
  std::vector<StepPart> parts;
  Tensor hidden, logits;  // of the pass
  bool fetched = false;   // the logits were copied to the host
  DraftTimes drafting;
  double started = 0, drafted = 0, submitted = 0;  // times
};

class StepRunner {
 public:
  explicit StepRunner(EngineModel& model) : model_(model) {}

  // Makes a sequence's part. The sequence must have a state and constraints.
  static StepPart part_of(const ScheduledTokens& scheduled, Sequence& sequence);
  // Makes the drafts of the decoding parts, and enqueues the pass over all parts. If it throws, the states of
  // all parts may be half advanced.
  void submit(Step& step);
  // Waits for the pass, samples, applies the constraints, and commits the states. Throws as submit().
  void collect(Step& step);
  // Gives the part's drafters the hidden states of rows [row, until) of the batch, then sets row to until.
  void learn(const Step& step, StepPart& part, int& row, int until, bool busy);
  // Records what the part's draft cost and how much of it was accepted. delivered: when the tokens were
  // delivered.
  void observe(const Step& step, StepPart& part, double delivered);
  // Records what the whole step cost.
  void observe(const Step& step);

 private:
  DraftTimes draft(Step& step);
  void add_rows(Batch& batch, StepPart& part);
  void take_tokens(StepPart& part, Logits& logits);
  void read_prompt(const Step& step, StepPart& part);
  void pool(const Step& step, StepPart& part);
  void judge_prompt(const Step& step, StepPart& part);
  int draw(Sequence& sequence, Logits& logits, size_t row);
  Ending accept(Sequence& sequence, int token);
  int tokens_left(const Sequence& sequence) const;

  EngineModel& model_;
};

}  // namespace anabranch
