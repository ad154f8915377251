// List, verify and clear the disk tier's files of all fingerprints, for the command line. All of it may run
// beside processes that use the directory: files that they remove meanwhile are skipped, and files that are
// removed here are a miss to them. A directory that does not exist has no records.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/result.h"
#include "cache/disk_files.h"

namespace anabranch {

// One fingerprint's.
struct CacheFolder {
  Fingerprint fingerprint;
  std::string about;                // what a store wrote for people (DiskOptions::about), or empty
  std::vector<DiskRecord> records;  // the last used first
  std::string problem;              // why it cannot be listed; empty: it can
};
// The last used first. Reads names only. Errors: io.
Result<std::vector<CacheFolder>> list_cache(const std::string& directory);

// Records of a stretch of tokens that begins the same sequences: blocks that follow one another and the
// points on them. Where sequences part, branches follow, one level deeper; the last used first.
struct CacheBranch {
  int depth = 0;
  uint32_t from = 0, to = 0;     // tokens
  uint64_t blocks = 0;           // none: points of prompts shorter than a block
  std::vector<uint32_t> points;  // their lengths, ascending
  uint64_t bytes = 0;
  int64_t used_at_ns = 0;
  bool reachable = true;  // the last one may be of records whose parent block is missing
};
std::vector<CacheBranch> branches_of(const CacheFolder& folder);

struct DiskCheck {
  uint64_t good = 0, good_bytes = 0;
  uint64_t damaged = 0;     // what was written is not what is there
  uint64_t unusable = 0;    // no record, or of another version or fingerprint
  uint64_t unreadable = 0;  // files, and folders
  uint64_t removed = 0;
  uint64_t orphans = 0;               // good, but their parent block is missing
  std::vector<std::string> problems;  // a line for each file or folder that is not good, at most 100
  uint64_t bad() const { return damaged + unusable + unreadable; }
};
// Reads everything. remove_bad: unlinks the files that are damaged or unusable.
Result<DiskCheck> verify_records(const std::string& directory, bool remove_bad);

// Records of fingerprints whose hexadecimal digits begin so, last used before then.
struct RecordFilter {
  std::string fingerprint;
  int64_t used_before_ns = std::numeric_limits<int64_t>::max();
};
// The records to clear, children before parents; never a block on which a record stands that stays.
std::vector<DiskRecord> records_to_clear(const CacheFolder& folder, const RecordFilter& filter);

struct DiskCleared {
  uint64_t files = 0, bytes = 0;
};
// Removes these records, what dead writers left, and folders that are empty then; without a filter, also the
// folders of older formats. Leaves files that are not the cache's.
Result<DiskCleared> clear_records(const std::string& directory, const RecordFilter& filter = {});

}  // namespace anabranch
