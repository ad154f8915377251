// The disk tier of the prefix cache: records as files, one directory per fingerprint, read by mapping and
// written by a thread of its own, within a budget.
//
// A file gets its name only when it is complete, and every file is verified when it is read. A process may
// therefore be killed at any moment, and several processes of one user may share a directory: each finds the
// records of the others, and treats records that they evicted as misses. Disk errors are counted and logged
// with their reason; they never stop the caller.
//
// Threads: every function may be called from any thread. Functions that access files on the caller's thread
// say so.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "cache/disk_files.h"
#include "cache/prefix_key.h"
#include "cache/record.h"

namespace anabranch {

struct DiskOptions {
  std::string directory;
  Fingerprint fingerprint;
  // The limit for all records in the directory, of any fingerprint. 0: a tenth of the space that is free or
  // already used by the cache, at most 32 GiB.
  uint64_t budget_bytes = 0;
  // The most bytes that may wait to be written; further records are dropped. A single record is always
  // accepted.
  uint64_t queue_bytes = 512ull << 20;
  double retry_seconds = 30;               // pause before the next write after a disk error
  double close_seconds = 10;               // how long the destructor waits for queued records
  std::string about;                       // contents of about.txt: describes the fingerprint for people
  WriteCall write;                         // write(2); tests replace it
  std::function<int(const char*)> unlink;  // unlink(2) in remove(); tests replace it
};

inline constexpr double kUsualSpeed = 500e6;  // bytes a second of a usual solid-state disk

struct DiskStats {
  bool writable = false;
  uint64_t bytes = 0, files = 0, budget_bytes = 0;  // on disk, of any fingerprint, at the last listing
  uint64_t queued_bytes = 0, queued_records = 0;    // including the record being written
  // Since open():
  uint64_t written_bytes = 0, written_records = 0;
  double written_s = 0;  // how long writing them took
  uint64_t read_bytes = 0, read_records = 0;
  uint64_t dropped = 0;   // not written: queue full, disk error, parent missing
  uint64_t failed = 0;    // reads and writes that failed
  uint64_t corrupt = 0;   // damaged files, which were removed
  uint64_t unusable = 0;  // files of another version or content, or not records; they stay
  uint64_t evicted = 0, evicted_bytes = 0;
  std::string last_reason;  // of the latest drop, failure or damage
};

class DiskStore {
 public:
  // Creates the directory (0700), removes files of dead writers and older formats, and lists the records
  // (names only). If the directory cannot be written, the store only reads. Errors: invalid (not a directory,
  // or other users may write to it), io (cannot be read).
  static Result<std::unique_ptr<DiskStore>> open(DiskOptions options);
  // Waits `close_seconds` for queued records, then drops them.
  ~DiskStore();
  DiskStore(const DiskStore&) = delete;
  DiskStore& operator=(const DiskStore&) = delete;

  // Returns the heads of all records, parents before children, without records whose parent block is missing.
  // Reads every head on the caller's thread.
  std::vector<RecordHead> scan();
  // The same for records that other processes added since the last scan() or refresh(). Costs one stat() when
  // nothing changed. After a change by this store, it lists the directory at most once a second, and if a
  // listing takes more than 2 ms, it spends at most a twentieth of the time on listings. at_once: these two
  // limits do not apply.
  std::vector<RecordHead> refresh(bool at_once = false);

  // Returns records that scan() or refresh() reported or put() accepted, but that are not on disk: evicted
  // here or by another process, dropped, failed to be written, or damaged. Each is returned once. A record
  // that another process writes again before this call is not returned.
  std::vector<DiskRecord> take_missing();

  // The speed of writing so far; kUsualSpeed before the first write.
  double bytes_per_second() const;

  // Queues a record to be written. Never blocks: when the queue is full, the oldest queued snapshot is
  // dropped, or else this record. Nothing is written when the file exists already or its parent block does
  // not (put parents first). Aborts when the head is not well formed (record.h).
  void put(RecordHead head, std::vector<Section> sections);
  // Whether the record is on disk now (not verified) or queued. Costs one stat().
  bool has(const RecordHead& head) const;
  // Asks the system to read these files ahead. Many get() calls are then several times faster on a slow disk.
  void prefetch(std::span<const RecordHead> heads) const;
  // Maps the record on the caller's thread and verifies every checksum. Errors: not_found, invalid (damaged;
  // the file is removed), unsupported (of another version, or not a record; the file stays), io.
  Result<StoredRecord> get(const RecordHead& head);
  // Reports that the contents of a record from get() are unusable. The file stays until the record is written
  // again; put() overwrites it although it exists.
  void mark_unusable(const RecordHead& head, const std::string& reason);
  // Removes the files of these records, in this order, also if they wait to be written. Returns when they are
  // gone; other threads can use the store meanwhile. If put() is called for one of them before that, the
  // record is not written and take_missing() returns it. The caller must not name a record that others depend
  // on.
  void remove(std::span<const DiskRecord> records);
  // Reports that the records of a prefix were used just now, the longest prefix first. The time is stored as
  // the files' modification time.
  void used(std::span<const PrefixKey> from_leaf_to_root);

  DiskStats stats() const;
  // Waits until all earlier put() and used() calls have reached the disk.
  void drain();

 private:
  struct Impl;
  explicit DiskStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace anabranch
