// Lists, verifies and clears the files of the disk tier, of all fingerprints, for the command line. This may
// run while other processes use the directory: files that they remove are skipped, and files that are removed
// here are misses to them. A directory that does not exist has no records.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/result.h"
#include "cache/disk_files.h"
#include "cache/image_store.h"

namespace anabranch {

// The records of one fingerprint.
struct CacheFolder {
  Fingerprint fingerprint;
  std::string about;                // the text of about.txt (DiskOptions::about), or empty
  std::vector<DiskRecord> records;  // most recently used first
  std::string problem;              // why the folder cannot be listed; empty: it can
};
// Lists all folders, most recently used first, without reading the records' contents. Errors: io.
Result<std::vector<CacheFolder>> list_cache(const std::string& directory);

// A run of consecutive blocks that the same cached sequences share, and the snapshots on these blocks. In
// the result of branches_of(), a branch is followed by the branches that continue it, one level deeper, most
// recently used first. The last branches collect the snapshots shorter than a block, and the records whose
// parent is missing.
struct CacheBranch {
  int depth = 0;
  uint32_t from = 0, to = 0;     // tokens
  uint64_t blocks = 0;           // 0: only snapshots of prompts shorter than a block
  std::vector<uint32_t> points;  // lengths of the snapshots, ascending
  uint64_t bytes = 0;
  int64_t used_at_ns = 0;
  bool reachable = true;  // false: a collection of records whose parent block is missing
};
std::vector<CacheBranch> branches_of(const CacheFolder& folder);

struct DiskCheck {
  uint64_t good = 0, good_bytes = 0;
  uint64_t damaged = 0;     // the contents have changed since they were written
  uint64_t unusable = 0;    // not a record, or of another version or fingerprint
  uint64_t unreadable = 0;  // files, and folders
  uint64_t removed = 0;
  uint64_t orphans = 0;               // good, but their parent block is missing
  std::vector<std::string> problems;  // a line for each file or folder that is not good, at most 100
  uint64_t bad() const { return damaged + unusable + unreadable; }
};
// Reads all records completely. remove_bad: removes the files that are damaged or unusable.
Result<DiskCheck> verify_records(const std::string& directory, bool remove_bad);

// Selects records by the first hexadecimal digits of the fingerprint and by the time of the last use.
struct RecordFilter {
  std::string fingerprint;
  int64_t used_before_ns = std::numeric_limits<int64_t>::max();
};
// The records to clear, children before parents. A block stays if any record that depends on it stays.
std::vector<DiskRecord> records_to_clear(const CacheFolder& folder, const RecordFilter& filter);

// Whether the filter selects everything.
bool is_empty(const RecordFilter& filter);

struct DiskCleared {
  uint64_t files = 0, bytes = 0;
  ImageFiles images;
};
// Removes these records, temporary files of dead writers, and folders that are then empty; without a filter,
// also the folders of older formats, the hashes of models' files (weights_key.h) and the embeddings of images
// (image_store.h). Files that do not belong to the cache stay.
Result<DiskCleared> clear_records(const std::string& directory, const RecordFilter& filter = {});

}  // namespace anabranch
