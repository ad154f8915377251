// What each step computes: pure policy, no arrays and no clock. docs/scheduling.md tells it in prose.
//
// A sequence waits until it is admitted, then runs until it ends: its known tokens are applied piece by
// piece, and once one token alone is left it decodes. A step serves all that decode, and beside them so much
// of some prompts that it takes at most kStall times as long as without. What a sequence's tokens are never
// depends on any of this.
#pragma once

#include <cstdint>
#include <vector>

namespace anabranch {

// A step that carries pieces of prompts takes at most so many times the decoding sequences' own step; but a
// piece has kPieceGrid tokens at least, and ends on that grid of positions.
constexpr double kStall = 2.2;
constexpr int kPieceGrid = 4;
// What a sequence's memory grows by, in tokens, and how many it may apply in a step beyond a prompt's: as
// ops::kKvBlock and kMaxTrial.
constexpr int kMemoryBlock = 256, kRoundRows = 16;

// How long steps take, as learnt from those that were made.
class StepCosts {
 public:
  // Tokens of prompts that fit a step beside `decoding` sequences; 0: first measure a step without.
  int tokens_beside(int decoding, int most) const;
  // A step for so many decoding sequences and tokens of prompts took so long.
  void observe(int decoding, int tokens, double seconds);

 private:
  std::vector<double> decode_s_;  // [decoding]; 0: not known
  double token_s_ = 0;            // a prompt's token adds, beside decoding sequences; 0: not known
  int tried_ = 0;  // tokens beside decoding sequences lately: the next step takes twice as many at most
  int steps_beside_ = 0;  // since a step without prompts
};

struct SchedulerOptions {
  int prefill_chunk = 256;
  int max_running = 8;
  int max_queue = 64;
};

// Bytes of one sequence: whatever its length, and for each token, in blocks of kMemoryBlock.
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

struct StepPlan {
  std::vector<Piece> pieces;  // of different sequences
  int decoding = 0;           // the first so many are one token each
  int prompt_tokens = 0;      // of the others
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
  std::vector<uint64_t> admit();
  // A sequence just admitted, with an empty state, waits until `other`, which runs, has applied so many
  // tokens (or runs no more): their prompts begin alike, and a state will be kept there.
  void wait_for(uint64_t id, uint64_t other, int tokens);
  // Of what runs; no pieces if nothing does.
  StepPlan plan() const;
  // The step as planned took so long.
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
    int known;        // tokens there are
    int applied = 0;  // tokens the state has seen
    int64_t since;    // tokens of all prompts that were applied before it came
    bool running = false;
    int alone = 0, alone_next = 1;  // tokens to come on its own; after the next failure
    uint64_t after = 0;             // wait_for()'s other; 0: none
    int after_tokens = 0;
    int left() const { return known - applied; }
    bool decodes() const { return left() == 1; }
  };
  Entry& at(uint64_t id);
  bool waits_for_other(const Entry& entry) const;
  uint64_t bytes_of(const Entry& entry) const;
  std::vector<const Entry*> prompts_in_order() const;
  Piece chunk(const Entry& entry) const;
  void add_chunks(const std::vector<const Entry*>& prompts, StepPlan& plan) const;
  void add_pieces(const std::vector<const Entry*>& prompts, StepPlan& plan) const;

  SchedulerOptions options_;
  SequenceBytes bytes_;
  uint64_t budget_ = 0;
  std::vector<Entry> entries_;  // by priority, then as they came
  int64_t prompt_tokens_ = 0;   // applied so far, of all
  StepCosts costs_;
};

}  // namespace anabranch
