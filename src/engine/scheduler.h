// Decides what each step computes: pure policy, no arrays and no clock. docs/scheduling.md explains it.
//
// A sequence waits until it is admitted, then runs until it ends. Its known tokens are applied in chunks
// (prefill); once a single token is left, it decodes. Every step decodes a token of each decoding sequence,
// and fills up with prefill as long as the gap between two tokens of a stream stays within a bound. None of
// this changes which tokens a sequence gets.
#pragma once

#include <cstdint>
#include <vector>

#include "base/limits.h"
#include "engine/step_costs.h"

namespace anabranch {

// The gap between two tokens of a decoding sequence may be at most kStall times a decode-only step, or
// SchedulerOptions::max_gap_s if that is longer. A chunk has at least kChunkGrid tokens, though, and ends on
// that grid of positions.
constexpr double kStall = 2.2;
constexpr int kChunkGrid = 4;
// Sequences that may be admitted in a step beside decoding ones.
constexpr int kMostAdmissions = 16;

// As in EngineOptions, which has the defaults; prefill_chunk is never 0 here.
struct SchedulerOptions {
  int prefill_chunk;
  int max_running;
  int max_queue;
  double max_gap_s;
};

// Memory of one sequence: a fixed part, and a part for each token, in blocks of kKvBlock tokens.
struct SequenceBytes {
  uint64_t fixed = 0, per_token = 0;
  uint64_t of(int tokens) const;
};

// The next `tokens` tokens of a sequence, from the first not yet applied.
struct ScheduledTokens {
  uint64_t id = 0;
  int tokens = 0;
  bool last = false;  // no known token remains after them: sample the next one
};

struct StepPlan : StepLoad {
  // Of different sequences. The first `decoding` entries are one token each.
  std::vector<ScheduledTokens> scheduled;
};

// A sequence as the scheduler knows it.
struct ScheduledSequence {
  uint64_t id;
  int priority;
  int known;         // tokens of prompt and answer so far
  int applied = 0;   // tokens that its state has seen
  int64_t since;     // prompt tokens that the scheduler had seen read when it arrived
  int64_t read = 0;  // prompt tokens of its own that were read since
  bool running = false;
  int alone = 0, alone_next = 1;  // tokens for which it runs alone, now and after the next failure
  uint64_t after = 0;             // the sequence that it waits for (wait_for); 0: none
  int after_tokens = 0;
  int left() const { return known - applied; }
  bool decodes() const { return left() == 1; }
  // The sum of the positions of its next tokens.
  double positions(int tokens) const { return (applied + 0.5 * tokens) * tokens; }
};

class Scheduler {
 public:
  explicit Scheduler(const SchedulerOptions& options) : options_(options) {}

  // Memory of a sequence, and the budget of all that run; 0: no limit. A single sequence runs even over
  // budget.
  void set_bytes(const SequenceBytes& bytes) { bytes_ = bytes; }
  void set_budget(uint64_t bytes) { budget_ = bytes; }

  // False when the queue is full. Lower priorities go first.
  bool add(uint64_t id, int tokens, int priority = 0);
  // Before each step: takes running sequences off, as many as are over the memory budget. They wait again,
  // and start with an empty state when they are admitted again.
  std::vector<uint64_t> preempt();
  // Then: waiting sequences that run from now on. While others decode it admits one at a time: call it until
  // it returns none. `begun` were admitted for this step already, and `spent` seconds have passed since the
  // decoding sequences got their last tokens.
  std::vector<uint64_t> admit(int begun = 0, double spent = 0);
  // Starting an admitted sequence took so long, reading its kept state included.
  void began(double seconds);
  // Sends a sequence that was just admitted back to wait until the running sequence `other` has applied so
  // many tokens, or has ended: both prompts begin with them, and a snapshot will be stored there.
  void wait_for(uint64_t id, uint64_t other, int tokens);
  // The next step; empty if nothing runs. spent: as for admit().
  StepPlan plan(double spent = 0) const;
  // The step took so long, from its plan to the delivery of its tokens.
  void took(const StepPlan& plan, double seconds);
  // A step applied so many of the sequence's known tokens and sampled so many new ones: the scheduled tokens
  // and at most one new, or the accepted drafts and the token after them.
  void advanced(uint64_t id, int applied, int sampled);
  // A step that the running sequence shared with others failed. It waits with an empty state, and then has
  // its steps to itself until it has one more token. After each further failure it stays alone for twice as
  // many tokens, because the fault may show only in company.
  void isolate(uint64_t id);
  void remove(uint64_t id);

  int running() const;
  int queued() const { return static_cast<int>(entries_.size()) - running(); }
  uint64_t bytes() const;  // of running sequences, with room for the next step's tokens

 private:
  ScheduledSequence& at(uint64_t id);
  bool waits_for_other(const ScheduledSequence& entry) const;
  uint64_t bytes_of(const ScheduledSequence& entry) const;
  std::vector<const ScheduledSequence*> prompts_in_order() const;
  int decoding() const;
  double gap_left(int decoding, double spent) const;
  int tokens_that_fit(const ScheduledSequence& entry, const StepLoad& load, double seconds) const;
  void add_full_chunks(const std::vector<const ScheduledSequence*>& prompts, StepPlan& plan) const;
  void add_partial_chunks(const std::vector<const ScheduledSequence*>& prompts, double spent,
                          StepPlan& plan) const;

  SchedulerOptions options_;
  SequenceBytes bytes_;
  uint64_t budget_ = 0;
  std::vector<ScheduledSequence> entries_;  // by priority, then by arrival
  int64_t prompt_tokens_ = 0;               // read so far, of all prompts
  StepCosts costs_;
  double admission_s_ = 0;  // what starting a sequence took lately
};

}  // namespace anabranch
