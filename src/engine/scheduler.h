// Decides what each step computes: pure policy, no arrays and no clock. docs/scheduling.md explains it.
//
// A sequence waits until it is admitted, then runs until it ends. Its known tokens are applied piece by piece
// (prefill); once a single token is left, it decodes. Every step decodes a token of each decoding sequence,
// and fills up with prefill as long as the gap between two tokens of a stream stays within a bound. None of
// this changes which tokens a sequence gets.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/step_costs.h"

namespace anabranch {

// The gap between two tokens of a decoding sequence may be at most kStall times a decode-only step, or
// SchedulerOptions::max_gap_s if that is longer. A piece has at least kPieceGrid tokens, though, and ends on
// that grid of positions.
constexpr double kStall = 2.2;
constexpr int kPieceGrid = 4;
// Sequences that may be admitted in a step beside decoding ones.
constexpr int kMostAdmissions = 16;
// KV memory grows in blocks of kMemoryBlock tokens; a step verifies at most kRoundRows tokens of a sequence.
// The same as ops::kKvBlock and kMaxTrial.
constexpr int kMemoryBlock = 256, kRoundRows = 16;

struct SchedulerOptions {
  int prefill_chunk = 256;
  int max_running = 8;
  int max_queue = 64;
  double max_gap_s = 0.05;
};

// Memory of one sequence: a fixed part, and a part for each token, in blocks of kMemoryBlock tokens.
struct SequenceBytes {
  uint64_t fixed = 0, per_token = 0;
  uint64_t of(int tokens) const;
};

// The next `tokens` tokens of a sequence, from the first not yet applied.
struct Piece {
  uint64_t id = 0;
  int tokens = 0;
  bool last = false;  // no known token remains after them: sample the next one
};

struct StepPlan : StepLoad {
  std::vector<Piece> pieces;  // of different sequences; the first `decoding` of them are one token each
};

class Scheduler {
 public:
  explicit Scheduler(const SchedulerOptions& options) : options_(options) {}

  // What sequences take, and may take together; 0: no limit. One sequence runs whatever it takes.
  void set_bytes(const SequenceBytes& bytes) { bytes_ = bytes; }
  void set_budget(uint64_t bytes) { budget_ = bytes; }

  // False when the queue is full. Lower priorities go first.
  bool add(uint64_t id, int tokens, int priority = 0);
  // Before each step: running sequences that must give their memory back (each waits again, and starts with
  // an empty state when its turn comes), then waiting ones that run from now on.
  std::vector<uint64_t> preempt();
  // Beside decoding sequences, one at a time: call it again until nothing comes. `begun` were admitted for
  // this step already, and `spent` seconds have passed since the decoding sequences got their last tokens.
  std::vector<uint64_t> admit(int begun = 0, double spent = 0);
  // It took so long to start an admitted sequence, reading its kept state included.
  void began(double seconds);
  // A sequence just admitted, with an empty state, waits until `other`, which runs, has applied so many
  // tokens (or runs no more): their prompts begin alike, and a state will be kept there.
  void wait_for(uint64_t id, uint64_t other, int tokens);
  // The next step; no pieces if nothing runs. spent: as for admit().
  StepPlan plan(double spent = 0) const;
  // From its plan to the moment when its tokens went out, the step took so long.
  void took(const StepPlan& plan, double seconds);
  // So many of the sequence's known tokens were applied, and so many new ones became known: a piece's tokens
  // and at most one, or a draft's accepted ones and the one after.
  void advanced(uint64_t id, int applied, int sampled);
  // A step with others failed: the running sequence waits with an empty state, and its next steps are its own
  // until tokens come of them: one, and after each further failure twice as many, since what fails may need
  // company.
  void isolate(uint64_t id);
  void remove(uint64_t id);

  int running() const;
  int queued() const { return static_cast<int>(entries_.size()) - running(); }
  uint64_t bytes() const;  // of what runs, room for the next step's tokens included

 private:
  struct Entry {
    uint64_t id;
    int priority;
    int known;         // tokens there are
    int applied = 0;   // tokens the state has seen
    int64_t since;     // tokens of all prompts that were read before it came
    int64_t read = 0;  // of the tokens read since, its own
    bool running = false;
    int alone = 0, alone_next = 1;  // tokens to come on its own; after the next failure
    uint64_t after = 0;             // wait_for()'s other; 0: none
    int after_tokens = 0;
    int left() const { return known - applied; }
    bool decodes() const { return left() == 1; }
    // The sum of the positions of its next tokens.
    double positions(int tokens) const { return (applied + 0.5 * tokens) * tokens; }
  };
  Entry& at(uint64_t id);
  bool waits_for_other(const Entry& entry) const;
  uint64_t bytes_of(const Entry& entry) const;
  std::vector<const Entry*> prompts_in_order() const;
  int decoding() const;
  static void add(StepPlan& plan, const Entry& entry, int tokens);
  double gap_left(int decoding, double spent) const;
  int chunk(const Entry& entry) const;
  int tokens_that_fit(const Entry& entry, const StepLoad& load, double seconds) const;
  void add_chunks(const std::vector<const Entry*>& prompts, StepPlan& plan) const;
  void add_pieces(const std::vector<const Entry*>& prompts, double spent, StepPlan& plan) const;

  SchedulerOptions options_;
  SequenceBytes bytes_;
  uint64_t budget_ = 0;
  std::vector<Entry> entries_;  // by priority, then as they came
  int64_t prompt_tokens_ = 0;   // read so far, of all
  StepCosts costs_;
  double admission_s_ = 0;  // what starting a sequence took lately
};

}  // namespace anabranch
