// Caches states of sequences for later prompts, and resumes new sequences from them. Decides which states are
// worth caching, and which running request to wait for because it is about to cache the same prefix.
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
  // If options.cache.enabled is false, nothing is cached or found. Errors: unsupported (the device does not
  // support this KV format), and those of weights_key().
  static Result<SnapshotKeeper> open(const EngineOptions& options, const EngineModel& model,
                                     uint64_t ram_bytes);

  // Restores the longest cached state of the prompt; returns its length in tokens, 0: none. Also sets
  // keep_at, the lengths at which the sequence's own states are to be cached.
  int resume(Sequence& sequence);

  // The number of tokens that resume() would find now.
  int covered(const Sequence& sequence) const;

  // The running request that will cache the longest prefix of the sequence's prompt, and that prefix's
  // length.
  struct Promise {
    RequestId id;
    int length;
  };
  std::optional<Promise> promise_of(const Sequence& sequence, const Sequences& others) const;

  // Caches the sequence's current state, or the given snapshot of it. The speculator must have been given the
  // hidden states up to that point and none beyond it. A failure is only logged, because the request must go
  // on.
  void keep(Sequence& sequence);
  void keep(Sequence& sequence, const Snapshot& snapshot);

  // full_name() of the records of all states that the sequence reused or cached.
  std::vector<std::string> names_of(const Sequence& sequence) const;

  void set_ram_budget(uint64_t bytes);
  std::optional<StateCacheStats> stats() const;
  // Null: nothing is cached. Its address stays the same when the keeper moves.
  StateCache* cache() const { return cache_.get(); }

 private:
  template <class Take>
  void keep_safely(Sequence& sequence, const Take& snapshot);
  void note_speed(const Sequence& sequence, int length);

  std::unique_ptr<StateCache> cache_;  // null: nothing is cached
  double token_s_ = 0;                 // seconds of prefill per prompt token; 0: unknown
};

}  // namespace anabranch
