// Asks other workers for cached states of a prompt, and fetches them (docs/state-transfer.md).
//
// Data from a peer is verified like a file: every checksum, the fingerprint, and the tokens themselves. A
// peer that fails, is slow or sends wrong data costs time, but never changes an answer. It is then not asked
// again for some seconds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "cache/prefix_key.h"
#include "cache/record.h"
#include "peers/peer_options.h"

namespace anabranch {

namespace net {
class HttpClient;
struct Response;
struct Transfer;
}  // namespace net

// "http://host:port" from a worker's address. Errors: invalid (not HTTP, or more than an address).
Result<std::string> peer_origin(const std::string& url);

// A prompt whose states are wanted.
struct WantedStates {
  std::span<const int> tokens;
  std::span<const PrefixKey> keys;       // prefix_keys() of them
  int length_here = 0, blocks_here = 0;  // StateCache::KeptHere
  bool any_token = false;                // see StateCache
  std::string host;                      // "host:port": only this peer is asked; empty: all are
  double until = 0;                      // monotonic seconds
  std::function<bool()> stop;            // called now and then; true cancels
};

struct FetchedStates {
  std::string peer;
  int length = 0;  // tokens after which the prompt can be continued with these states
  uint64_t bytes = 0;
  std::vector<StoredRecord> records;  // those missing here, parents before children
};

// Thread-safe; fetch() runs on the calling thread.
class PeerStates {
 public:
  // A peer is only asked if it could save this many tokens more than the states here.
  static constexpr int kLeastGain = 128;

  // most_bytes: the largest possible record.
  PeerStates(PeerOptions options, const Fingerprint& fingerprint, uint64_t most_bytes);
  ~PeerStates();

  // Whether "host:port" is one of the peers.
  bool knows(const std::string& host) const;
  // The longest state that a peer has, if fetching it is worthwhile; none: continue without.
  std::optional<FetchedStates> fetch(const WantedStates& wanted);

  struct Stats {
    uint64_t lookups = 0, fetched = 0, failed = 0;  // prompts for which peers were asked, and the outcomes
    uint64_t tokens = 0, bytes = 0;                 // fetched
  };
  Stats stats() const;

 private:
  struct Peer;
  struct Offer;
  void lookup(const WantedStates& wanted, Offer& offer);
  bool fetch(const WantedStates& wanted, const Offer& offer, FetchedStates& out);
  Result<StoredRecord> record(const WantedStates& wanted, const Peer& peer, const RecordHead& head);
  Result<net::Response> ask(const WantedStates& wanted, net::Transfer transfer, size_t most);
  void refused(Peer& peer, int status, const std::string& body);
  void failed(Peer& peer, const Error& error);

  const PeerOptions options_;
  const Fingerprint fingerprint_;
  const uint64_t most_bytes_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::unique_ptr<net::HttpClient> http_;
  mutable std::mutex mutex_;
  Stats stats_;
};

}  // namespace anabranch
