// The disk tier of the state cache: records as files, one directory per fingerprint, read by mapping and
// written by a thread of its own, within a budget.
//
// A file gets its name only when it is complete, and every file is verified when it is read. So a process may
// be killed at any moment, and several processes (of one user) may use one directory at once: each finds what
// the others wrote, and takes what they evicted as a miss. Disk errors are counted and logged with their
// reason; they never stop the caller.
//
// Threads: every function may be called from any thread. Those that touch files on the caller's thread say
// so.
#pragma once

#include <cstdint>
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
  // For all records in the directory, of any fingerprint. 0: a tenth of what is free (with what the cache
  // already has), at most 32 GiB.
  uint64_t budget_bytes = 0;
  // Waiting to be written; more is dropped. One record is always taken.
  uint64_t queue_bytes = 512ull << 20;
  double retry_seconds = 30;  // without writing, after the disk refused
  double close_seconds = 10;  // that the destructor gives to what is queued
  std::string about;          // about.txt beside the records, for people: what the fingerprint stands for
  WriteCall write;            // write(2); tests replace it
};

struct DiskStats {
  bool writable = false;
  uint64_t bytes = 0, files = 0, budget_bytes = 0;  // on disk, of any fingerprint, as last seen
  uint64_t queued_bytes = 0, queued_records = 0;    // being written included
  uint64_t written_bytes = 0, written_records = 0;  // from here on: since open()
  uint64_t read_bytes = 0, read_records = 0;
  uint64_t dropped = 0;   // not written: queue full, disk refusing, parent absent
  uint64_t failed = 0;    // the system refused a read or a write
  uint64_t corrupt = 0;   // damaged, and removed
  uint64_t unusable = 0;  // of another version or content, or no record: left alone
  uint64_t evicted = 0, evicted_bytes = 0;
  std::string last_reason;  // of the latest drop, failure or damage
};

class DiskStore {
 public:
  // Makes the directory (0700), removes what dead writers and older formats left, and learns what is there
  // (names only). A directory that cannot be written gives a store that only reads. Errors: invalid (not a
  // directory, or others may write to it), io (cannot be read).
  static Result<std::unique_ptr<DiskStore>> open(DiskOptions options);
  // Gives what is queued `close_seconds`, then drops it.
  ~DiskStore();
  DiskStore(const DiskStore&) = delete;
  DiskStore& operator=(const DiskStore&) = delete;

  // The heads of all records, parents before children; those whose parent block is missing are left out.
  // Reads every head on the caller's thread.
  std::vector<RecordHead> scan();
  // The same, of records that other processes added since the last scan() or refresh(). One stat() when
  // nothing changed; once this store changed something, others' changes are looked for at most once a second.
  std::vector<RecordHead> refresh();

  // Records that scan(), refresh() or put() reported as being on disk, and that are not there, or no longer
  // (evicted here or by another process, dropped, refused by the disk, damaged). Each is returned once.
  std::vector<DiskRecord> take_missing();

  // Takes a record to be written. Never blocks: when the queue is full, the oldest queued checkpoint gives
  // way, else this record. Nothing is written when it is there already, or when its parent block is not (put
  // parents first). Aborts when the head is not well formed (record.h).
  void put(RecordHead head, std::vector<Section> sections);
  // Whether the record is on disk now (not verified) or queued. One stat().
  bool has(const RecordHead& head) const;
  // Has the system begin to read these: get() of many is then several times faster when the disk has to be
  // waited for.
  void prefetch(std::span<const RecordHead> heads) const;
  // Reads the record by mapping it, on the caller's thread; every checksum is verified before it returns.
  // Errors: not_found (not there, or no longer), invalid (damaged: removed), unsupported (of
  // another version, or no record: left alone), io.
  Result<StoredRecord> get(const RecordHead& head);
  // The record that get() returned holds nothing that the caller can use. The file stays until the record is
  // written again; put() does that although the file is there.
  void mark_unusable(const RecordHead& head, const std::string& reason);
  // These were used just now: a prefix's records, the longest prefix first. Kept in the times of the files.
  void used(std::span<const PrefixKey> from_leaf_to_root);

  DiskStats stats() const;
  // Waits until all that was put or used before is on disk.
  void drain();

 private:
  struct Impl;
  explicit DiskStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace anabranch
