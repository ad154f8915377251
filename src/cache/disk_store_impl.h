// The state of a DiskStore. disk_store.cc opens, lists and reads; disk_writer.cc has the queue, the writer
// thread, and eviction.
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "cache/disk_store.h"

namespace anabranch {

using Steady = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// A record that waits to be written.
struct WriteJob {
  RecordHead head;
  std::vector<Section> sections;
  uint64_t bytes = 0;
};

// A file of this store's fingerprint.
struct KnownFile {
  DiskRecord record;
  bool reported = false;  // the caller knows the record, from scan(), refresh(), get() or its own put()
  uint64_t listing = 0;   // number of the last listing that found it, or during which it was written
};

struct DiskStore::Impl {
  DiskOptions options;
  std::string folder;
  std::atomic<bool> abandon{false};  // set: the writer stops in the middle of a record

  mutable std::mutex mutex;  // guards the members up to those of the writer thread
  std::condition_variable work, idle;
  std::deque<WriteJob> queue;
  std::unordered_set<PrefixKey> queued;   // including the record that is being written
  std::unordered_set<PrefixKey> leaving;  // remove() is about to remove their files
  std::unordered_map<PrefixKey, int64_t> touched;
  int64_t last_touch = 0;
  bool busy = false, stop = false;
  std::unordered_map<PrefixKey, KnownFile> known_files;
  std::unordered_set<PrefixKey> unusable;  // files that are ignored until their record is written again
  std::unordered_map<PrefixKey, DiskRecord> missing;  // for take_missing()
  uint64_t listings = 0;
  int64_t seen_change = 0;     // the folder's modification time at the last scan() or refresh()
  Steady::time_point seen_at;  // when that scan() or refresh() was
  bool changed_it = false;     // this store has changed the folder since then
  Seconds listing_took{0};     // duration of the last listing
  DiskStats stats;
  Steady::time_point quiet_until;  // limits log messages about dropped records

  // The members below are used on the writer thread only.
  Steady::time_point refused_until;
  std::string refusal;
  uint64_t written_since_listing = 0;
  bool about_written = false;

  std::thread writer;

  explicit Impl(DiskOptions o) : options(std::move(o)) {}
  std::string path_of(const DiskRecord& record) const { return record_path(options.directory, record); }
  DiskRecord record_of(const RecordHead& head) const { return disk_record(options.fingerprint, head); }
  void start();

  // The caller holds `mutex`.
  bool make_queue_room(uint64_t bytes, std::vector<WriteJob>* given_up);
  void dropped(const RecordHead& head, const std::string& reason);
  void removed(const DiskRecord& record, int error);
  void merge(std::span<const DiskRecord> files, uint64_t listing);
  void set_reported(const DiskRecord& record);
  bool is_idle() const { return queue.empty() && touched.empty() && !busy; }

  struct ReadHead {
    struct stat info {};
    Result<ParsedHead> parsed = Error{ErrorKind::not_found, "evicted"};
  };
  uint64_t begin_listing();
  std::vector<ReadHead> read_heads(std::span<const DiskRecord> records) const;
  std::vector<RecordHead> report_new();
  void bad_file(const DiskRecord& record, const struct stat& info, const Error& error);

  // On the writer thread.
  void run();
  void write(const WriteJob& job);
  void touch(const std::unordered_map<PrefixKey, int64_t>& times);
  bool parent_present(const RecordHead& head);
  bool make_room(uint64_t bytes, const PrefixKey& keep);
  void evict(std::span<const DiskRecord> files, std::span<const size_t> order);
  void write_failed(const std::string& path, const DiskRecord& record, int error);
  void write_about_once();
};

}  // namespace anabranch
