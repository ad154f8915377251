// Which sequence runs next, and how many of its tokens: pure policy, no arrays.
//
// First come, first served: the oldest sequence runs until it ends, its prompt in chunks. Chunks end on an
// absolute grid of positions, so that what a prompt's states are made of never depends on where a cache hit
// ended.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

namespace anabranch {

struct StepPlan {
  uint64_t id = 0;
  int tokens = 0;     // to apply, from the first not yet applied
  bool last = false;  // no known token remains after them: sample the next one
};

class Scheduler {
 public:
  Scheduler(int prefill_chunk, int max_queue) : chunk_(prefill_chunk), max_queue_(max_queue) {}

  // False when the queue is full.
  bool add(uint64_t id, int prompt_tokens);
  std::optional<StepPlan> plan() const;
  // So many of the sequence's known tokens were applied, and so many new ones became known: a plan's tokens
  // and at most one, or a draft's accepted ones and the one after.
  void advanced(uint64_t id, int applied, int sampled);
  void remove(uint64_t id);

  int running() const { return queue_.empty() ? 0 : 1; }
  int queued() const { return queue_.empty() ? 0 : static_cast<int>(queue_.size()) - 1; }

 private:
  struct Entry {
    uint64_t id;
    int known;    // tokens there are
    int applied;  // tokens the state has seen
  };
  Entry* find(uint64_t id);
  int chunk_, max_queue_;
  std::deque<Entry> queue_;  // front runs
};

}  // namespace anabranch
