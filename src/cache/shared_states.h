// The data that workers exchange about their cached states: which prefixes a worker has, and records as
// bytes, in the format of files (record.h). docs/state-transfer.md describes the exchange.
//
// Prefixes are named by their keys. A record contains its tokens, but only somebody who has the tokens
// already can ask for it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cache/disk_files.h"
#include "cache/prefix_key.h"

namespace anabranch {

// The keys of a prompt's prefixes: first the key of the empty prefix, then one for each whole block.
std::vector<PrefixKey> prefix_keys(const Fingerprint& fingerprint, std::string_view salt,
                                   std::span<const int> tokens);
// The key of the whole prompt. keys: its prefix_keys().
PrefixKey prompt_key(std::span<const PrefixKey> keys, std::span<const int> tokens);

// Returns the names of the records of a sequence's states: its whole blocks, and the snapshots at
// `lengths`.
std::vector<DiskRecord> records_of(const Fingerprint& fingerprint, std::string_view salt,
                                   std::span<const int> tokens, std::span<const int> lengths);
// Removes the files of these records. For models that are not loaded; SharedStates::forget() is for a loaded
// one. Files that other files depend on stay. Errors: io (the other files are removed all the same).
Result<void> forget_records(const std::string& directory, std::vector<DiskRecord> records);

// A snapshot, without its key: the mark is the key's first 32 bits. Somebody who has the tokens can compute
// the key and recognise the mark; others cannot name the record.
struct KeptPoint {
  uint32_t length = 0;  // tokens of the prefix
  uint32_t mark = 0;
  bool operator==(const KeptPoint&) const = default;
};
inline uint32_t mark_of(const PrefixKey& key) {
  return static_cast<uint32_t>(key.high >> 32);
}

constexpr size_t kMaxKeptPoints = 1024;

struct KeptPrefix {
  uint32_t blocks = 0;            // number of whole blocks of the prompt that are cached
  std::vector<KeptPoint> points;  // snapshots on these blocks, the longest first, at most kMaxKeptPoints
};

// Every function may be called from any thread.
class SharedStates {
 public:
  virtual ~SharedStates() = default;
  virtual const Fingerprint& fingerprint() const = 0;
  // Returns the cached part of a prompt. keys: its prefix_keys().
  virtual KeptPrefix kept(std::span<const PrefixKey> keys) const = 0;
  // The bytes of a record. name: its size and time are ignored. Errors: not_found (evicted, or never cached),
  // and those of DiskStore::get().
  virtual Result<std::string> record(const DiskRecord& name) const = 0;
  // Removes these records from memory and disk, except those that other cached states depend on. Returns when
  // their files are gone.
  virtual void forget(std::vector<DiskRecord> records) = 0;
};

}  // namespace anabranch
