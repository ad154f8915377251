// A step of the engine: one pass of the model over tokens of several sequences, and the tokens that it
// decides. submit() enqueues the pass, collect() waits for its tokens. Backends whose ops are done when they
// return do the work inside submit().
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
  bool forced = false;         // the draft is what must come
  Draft draft;                 // on trial in the pass
  std::vector<Snapshot> kept;  // states within the scheduled tokens; lengths first
  int begin = 0;               // tokens that the state had seen
  int row = 0;                 // of the batch
  size_t logit = 0;            // its first row of logits
  std::vector<int> sampled;
  bool right = false;  // all of the draft, and what was sampled ends inside it
  Ending ending = Ending::none;
  std::exception_ptr failure;  // of this part alone, in drafting or sampling
  int applied() const;         // rows whose tokens are part of the sequence
};

struct Step {
  StepPlan plan;
  std::vector<StepPart> parts;
  Tensor hidden, logits;  // of the pass
  bool fetched = false;   // the logits came to the host
  DraftTimes drafting;
  double started = 0, drafted = 0, submitted = 0;  // times
};

class StepRunner {
 public:
  explicit StepRunner(EngineModel& model) : model_(model) {}

  // A sequence's part. Its state and constraints exist.
  static StepPart part_of(const ScheduledTokens& scheduled, Sequence& sequence);
  // Drafts after the parts that decode, and enqueues the pass over all parts. Throws when it cannot be done;
  // the states of all parts may be half advanced then.
  void submit(Step& step);
  // Waits for the pass, samples, walks the constraints, and commits the states. Throws as submit().
  void collect(Step& step);
  // The part's drafters learn the hidden states of its tokens up to row `until` of the batch, from `row` on.
  void learn(const Step& step, StepPart& part, int& row, int until, bool busy);
  // What the step cost and its drafts brought. delivered: when its tokens went out.
  void observe(const Step& step, StepPart& part, double delivered);
  void observe(const Step& step);

 private:
  DraftTimes draft(Step& step);
  void add_rows(Batch& batch, StepPart& part);
  void take_tokens(StepPart& part, Logits& logits);
  int draw(Sequence& sequence, Logits& logits, size_t row);
  Ending accept(Sequence& sequence, int token);
  int tokens_left(const Sequence& sequence) const;

  EngineModel& model_;
};

}  // namespace anabranch
