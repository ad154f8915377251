// Decides what each step computes: pure policy, no arrays and no clock. docs/scheduling.md explains it.
//
// A sequence waits until it is admitted, then runs until it ends. Its known tokens are applied in chunks
// (prefill); once a single token is left, it decodes. Every step decodes a token of each decoding sequence.
// The rest of the step is filled with prefill, as long as the gap between two tokens of a stream stays within
// a bound. None of this changes the tokens that a sequence gets.
#pragma once

#include <cstdint>
#include <vector>

#include "base/limits.h"
#include "engine/step_costs.h"

namespace anabranch {

// The gap between two tokens of a decoding sequence may be at most kStall times a decode-only step, or
// SchedulerOptions::max_gap_s if that is longer. Chunks end at multiples of kChunkGrid and have at least that
// many tokens, even where this exceeds the bound.
constexpr double kStall = 2.2;
constexpr int kChunkGrid = 4;
// The most sequences that may be admitted in a step while others decode.
constexpr int kMostAdmissions = 16;
constexpr int kBackgroundShare = 4;

// The same options as in EngineOptions, which defines the defaults. prefill_chunk is never 0 here.
struct SchedulerOptions {
  int prefill_chunk;
  int max_running;
  int max_queue;
  double max_gap_s;
};

// Memory of one sequence: a fixed part, and a part per token, which grows in blocks of kKvBlock tokens.
struct SequenceBytes {
  uint64_t fixed = 0, per_token = 0;
  uint64_t of(int tokens) const;
};

// The sequence's next `tokens` tokens, from the first one not yet applied.
struct ScheduledTokens {
  uint64_t id = 0;
  int tokens = 0;
  bool last = false;  // no known token follows: sample the next one
};

struct StepPlan : StepLoad {
  // One entry for each sequence. The first `decoding` entries are one token each.
  std::vector<ScheduledTokens> scheduled;
};

struct TokenRange {
  int begin = 0, end = 0;
};

// The scheduler's data about a sequence.
struct ScheduledSequence {
  uint64_t id;
  int priority;
  int known;         // tokens of prompt and answer so far
  int applied = 0;   // tokens that its state has seen
  int64_t since;     // prompt tokens of all sequences that were read before it arrived
  int64_t read = 0;  // its own prompt tokens read since then
  bool running = false;
  int alone = 0, alone_next = 1;       // tokens for which it runs alone: now, and after the next failure
  uint64_t after = 0;                  // the sequence that it waits for (wait_for); 0: none
  int after_tokens = 0;                // tokens that `after` must have applied
  bool held = false;                   // hold()
  std::vector<TokenRange> whole = {};  // tokens that one step must apply together, ascending
  uint64_t more_bytes = 0;             // memory besides SequenceBytes
  bool background = false;             // see Request
  int left() const { return known - applied; }
  bool decodes() const { return left() == 1; }
  // The sum of the positions of its next tokens.
  double positions(int tokens) const { return (applied + 0.5 * tokens) * tokens; }
};

class Scheduler {
 public:
  explicit Scheduler(const SchedulerOptions& options) : options_(options) {}

  // Memory of one sequence, and the budget for all that run (0: no limit). One sequence may always run, even
  // over budget.
  void set_bytes(const SequenceBytes& bytes) { bytes_ = bytes; }
  void set_budget(uint64_t bytes) { budget_ = bytes; }

  // Returns false when the queue is full. Lower priorities run first. whole, more_bytes: see
  // ScheduledSequence; a step may exceed the chunk size to apply a range of `whole`. background: the sequence
  // takes no place, and its chunks are kBackgroundShare times as small.
  bool add(uint64_t id, int tokens, int priority = 0, std::vector<TokenRange> whole = {},
           uint64_t more_bytes = 0, bool background = false);
  // Call before each step. Returns the running sequences that must give their memory back because the budget
  // is exceeded. They wait again, and start with an empty state when they are admitted again.
  std::vector<uint64_t> preempt();
  // Call next. Returns waiting sequences that run from now on. While others decode it admits one at a time:
  // call it until it returns none. begun: sequences already admitted for this step. spent: seconds since the
  // decoding sequences got their last tokens.
  std::vector<uint64_t> admit(int begun = 0, double spent = 0);
  // Reports how long it took to start an admitted sequence, including reading its cached state.
  void began(double seconds);
  // Makes a sequence that was just admitted wait until the running sequence `other` has applied `tokens`
  // tokens, or has ended. Both prompts begin with these tokens, and a snapshot will be stored there.
  void wait_for(uint64_t id, uint64_t other, int tokens);
  // Makes a sequence that was just admitted wait until release(), for instance until its images are encoded.
  void hold(uint64_t id);
  void release(uint64_t id) { at(id).held = false; }
  // Seconds that other work may take before the next step: infinite if no sequence decodes.
  double spare_s(double spent) const;
  // Plans the next step; empty if nothing runs. spent: as for admit().
  StepPlan plan(double spent = 0) const;
  // The estimated time of a step.
  double expected_s(const StepLoad& load) const;
  // Reports the time of a step, from its plan to the delivery of its tokens.
  void took(const StepPlan& plan, double seconds);
  // Reports that a step applied `applied` known tokens of the sequence and sampled `sampled` new ones: the
  // scheduled tokens and at most one new token, or the accepted drafts and the token after them. Negative
  // counts undo an earlier report.
  void advanced(uint64_t id, int applied, int sampled);
  // Reports that a step of this and other sequences failed. The sequence, of `known` tokens, waits with an
  // empty state, and then runs alone until it has one more token. After each further failure it runs alone
  // for twice as many tokens, because the fault may occur only when it shares a step.
  void isolate(uint64_t id, int known);
  bool isolates() const;  // some sequence runs alone, or is going to
  void remove(uint64_t id);

  int running() const;
  int queued() const { return static_cast<int>(entries_.size()) - running(); }
  uint64_t bytes() const;  // bytes of running sequences, with room for the next step's tokens

 private:
  ScheduledSequence& at(uint64_t id);
  bool waits_for_other(const ScheduledSequence& entry) const;
  uint64_t bytes_of(const ScheduledSequence& entry) const;
  std::vector<const ScheduledSequence*> prompts_in_order() const;
  int decoding() const;
  double gap_left(int decoding, double spent) const;
  int tokens_that_fit(const ScheduledSequence& entry, const StepLoad& load, double seconds) const;
  int chunk_size(const ScheduledSequence& e) const;
  void add_full_chunks(const std::vector<const ScheduledSequence*>& prompts, StepPlan& plan) const;
  void add_partial_chunks(const std::vector<const ScheduledSequence*>& prompts, double spent,
                          StepPlan& plan) const;

  SchedulerOptions options_;
  SequenceBytes bytes_;
  uint64_t budget_ = 0;
  std::vector<ScheduledSequence> entries_;  // by priority, then by arrival
  int64_t prompt_tokens_ = 0;               // prompt tokens read so far, of all sequences
  StepCosts costs_;
  double admission_s_ = 0;  // recent time to start a sequence
};

}  // namespace anabranch
