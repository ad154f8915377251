// What one worker tells another of its kept states: which prefixes it has, and records as bytes, in the form
// of files (record.h). docs/state-transfer.md describes the exchange.
//
// Prefixes are named by their keys, so only who has the tokens can ask for a record, which contains them.
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

// The keys of a prompt's beginnings: of the empty one, then of each further whole block.
std::vector<PrefixKey> prefix_keys(const Fingerprint& fingerprint, std::string_view salt,
                                   std::span<const int> tokens);
// The key of the whole prompt, whose prefix_keys() these are.
PrefixKey prompt_key(std::span<const PrefixKey> keys, std::span<const int> tokens);

// The records of a sequence's states under a salt: its whole blocks, and the checkpoints at these lengths.
std::vector<DiskRecord> records_of(const Fingerprint& fingerprint, std::string_view salt,
                                   std::span<const int> tokens, std::span<const int> lengths);
// Removes the files of these records of models that are not loaded, without those that other files depend on.
// Errors: io (the others are removed all the same).
Result<void> forget_records(const std::string& directory, std::vector<DiskRecord> records);

// A checkpoint, without its key: the mark is the key's first 32 bits. Who has the tokens knows the key and
// recognises the mark; others cannot name the record.
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
  uint32_t blocks = 0;            // so many whole blocks of the prompt are kept
  std::vector<KeptPoint> points;  // on the path of these, the longest first, at most kMaxKeptPoints
};

// Every function may be called from any thread.
class SharedStates {
 public:
  virtual ~SharedStates() = default;
  virtual const Fingerprint& fingerprint() const = 0;
  // keys: as of prefix_keys(), of any prompt.
  virtual KeptPrefix kept(std::span<const PrefixKey> keys) const = 0;
  // The bytes of a record; name: all but its size and time. Errors: not_found (evicted, or never kept), and
  // those of DiskStore::get().
  virtual Result<std::string> record(const DiskRecord& name) const = 0;
  // Removes these records from memory and disk, without those that other kept states depend on. Returns when
  // their files are gone.
  virtual void forget(std::vector<DiskRecord> records) = 0;
};

}  // namespace anabranch
