// Statistics of the prefix cache as plain numbers.
#pragma once

#include <cstdint>
#include <string>

#include "state/kv_format.h"

namespace anabranch {

// Lookups that did not find the whole prompt, each counted under the reason that cost the most tokens.
struct CacheMisses {
  uint64_t nothing_alike = 0;  // no cached sequence begins like the prompt
  uint64_t new_text = 0;       // the prompt continues after the end of a cached sequence
  uint64_t differs = 0;        // the prompt differs from the cached sequences
  uint64_t no_state = 0;       // more of the prompt is cached, but there is no state at its end
  uint64_t lost = 0;           // a record could not be read any more
};

struct StateCacheStats {
  KvFormat kv = KvFormat::exact;
  uint64_t lookups = 0;
  uint64_t ram_hits = 0, disk_hits = 0;           // disk: at least one record was read
  uint64_t prompt_tokens = 0, cached_tokens = 0;  // summed over all lookups
  uint64_t ram_tokens = 0, disk_tokens = 0;       // cached_tokens, by where their keys and values were
  CacheMisses misses;
  uint64_t no_state_tokens = 0,
           lost_tokens = 0;  // cached tokens that were computed again, by reason (CacheMisses)
  uint64_t ram_bytes = 0, blocks = 0, points = 0;
  std::string last_miss;  // why the last lookup did not find more; empty: it found everything
  // Statistics of the disk tier, if there is one (DiskStats).
  bool on_disk = false, disk_writable = false;
  uint64_t disk_bytes = 0, disk_budget_bytes = 0, disk_written_bytes = 0;
  uint64_t disk_dropped = 0, disk_failed = 0, disk_corrupt = 0, disk_evicted = 0;
  std::string disk_last_reason;
  // Requests to other workers: prompts asked for, prompts for which they had a state, and failures.
  bool has_peers = false;
  uint64_t peer_lookups = 0, peer_hits = 0, peer_failed = 0, peer_tokens = 0, peer_bytes = 0;
};

}  // namespace anabranch
