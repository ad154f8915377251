// Fetches the cached states of new requests' prompts from other workers before the engine starts them. It
// uses threads of its own, so that neither the engine nor other requests wait for the network.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "cache/state_cache.h"
#include "engine/sequence.h"
#include "peers/peer_states.h"

namespace anabranch {

class StateFetcher {
 public:
  // Receives a sequence when its states have arrived, or will not; cancelled: cancel() was called for it.
  // Must not call back.
  using HandOver = std::function<void(std::unique_ptr<Sequence> sequence, bool cancelled)>;

  // The cache must outlive the fetcher.
  StateFetcher(PeerOptions options, StateCache& cache, HandOver hand_over);
  // Hands over all remaining sequences.
  ~StateFetcher();

  // Whether peers might have states for this request.
  bool wants(const Request& request) const;
  void add(std::unique_ptr<Sequence> sequence);
  // False: the fetcher does not have this sequence (any more).
  bool cancel(RequestId id);
  PeerStates::Stats stats() const { return peers_.stats(); }

 private:
  void work();
  std::unique_ptr<Sequence> take_next();
  void fetch(const Sequence& sequence);
  bool given_up(RequestId id);

  const double timeout_s_;
  StateCache& cache_;
  const HandOver hand_over_;
  PeerStates peers_;
  std::mutex mutex_;  // guards those below
  std::condition_variable wake_;
  std::deque<std::unique_ptr<Sequence>> waiting_;
  std::vector<const Sequence*> fetching_;
  std::set<RequestId> here_, cancelled_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace anabranch
