// What the state cache did, as plain numbers.
#pragma once

#include <cstdint>
#include <string>

namespace anabranch {

// How keys and values are kept: as they are, or in 8 bits (cache/kv_codec.h), in half the space or less; what
// follows a kept state then only resembles what a cold run would say.
enum class KvForm { exact, q8 };
inline const char* to_string(KvForm form) {
  return form == KvForm::q8 ? "q8" : "exact";
}

struct StateCacheStats {
  KvForm kv = KvForm::exact;
  uint64_t lookups = 0, ram_hits = 0, disk_hits = 0;
  uint64_t prompt_tokens = 0, cached_tokens = 0;  // of the lookups
  uint64_t ram_bytes = 0, blocks = 0, points = 0;
  std::string last_miss;  // why the last lookup did not find more; empty: it found all
  // Of the disk tier, if there is one (DiskStats).
  bool on_disk = false, disk_writable = false;
  uint64_t disk_bytes = 0, disk_budget_bytes = 0, disk_written_bytes = 0;
  uint64_t disk_dropped = 0, disk_failed = 0, disk_corrupt = 0, disk_evicted = 0;
  std::string disk_last_reason;
};

}  // namespace anabranch
