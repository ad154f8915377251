// Keeps states of sequences for later prompts, and lets new sequences go on from them: which states are worth
// keeping, where to look, and which running request to wait for because it is about to keep the same prefix.
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "cache/state_cache.h"
#include "engine/engine_model.h"
#include "engine/sequence.h"

namespace anabranch {

using Sequences = std::map<RequestId, std::unique_ptr<Sequence>>;

class SnapshotKeeper {
 public:
  // Without a cache (options.cache.enabled is false) nothing is kept or found. Errors: unsupported (a form of
  // keys and values that the device lacks), and of weights_key().
  static Result<SnapshotKeeper> open(const EngineOptions& options, const EngineModel& model,
                                     uint64_t ram_bytes);

  // Goes on from the longest state that is kept; returns its tokens, 0: none. Also notes where the sequence's
  // own states are to be kept.
  int resume(Sequence& sequence);

  // Another request that will keep a longer part of the sequence's prompt than any other that is running, and
  // how many tokens that will be.
  struct Promise {
    RequestId id;
    int length;
  };
  std::optional<Promise> promise_of(const Sequence& sequence, const Sequences& others) const;

  // Keeps the sequence's state, or this snapshot of it. The speculator knows the hidden states up to there,
  // and no further ones. A failure is logged: the request must go on, or end, whatever becomes of the state.
  void keep(Sequence& sequence);
  void keep(Sequence& sequence, const Snapshot& snapshot);

  void set_ram_budget(uint64_t bytes);
  std::optional<StateCacheStats> stats() const;

 private:
  template <class Take>
  void keep_safely(Sequence& sequence, const Take& snapshot);

  std::unique_ptr<StateCache> cache_;  // null: nothing is kept
};

}  // namespace anabranch
