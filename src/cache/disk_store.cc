#include "cache/disk_store.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"

namespace anabranch {

namespace {

using Steady = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

struct Job {
  RecordHead head;
  std::vector<Section> sections;
  uint64_t bytes = 0;
};

// A file of our fingerprint. told: the caller knows it, from scan(), refresh() or its own put().
struct Known {
  DiskRecord record;
  bool told = false;
  uint64_t listing = 0;  // number of the last one that found it, or during which it was written
};

uint64_t pages(uint64_t bytes) {
  return (bytes + 4095) / 4096 * 4096;
}

}  // namespace

struct DiskStore::Impl {
  DiskOptions options;
  std::string folder;
  std::atomic<bool> abandon{false};  // what is being written

  mutable std::mutex mutex;  // guards what follows, up to the writer's own
  std::condition_variable work, idle;
  std::deque<Job> queue;
  std::unordered_set<PrefixKey> queued;  // also what is being written
  std::unordered_map<PrefixKey, int64_t> touched;
  int64_t last_touch = 0;
  bool busy = false, stop = false;
  std::unordered_map<PrefixKey, Known> known;
  std::unordered_set<PrefixKey> set_aside;
  std::unordered_map<PrefixKey, DiskRecord> missing;  // for take_missing()
  uint64_t listings = 0;
  int64_t seen_change = 0;  // of the folder, at the last scan() or refresh(), which was at seen_at
  Steady::time_point seen_at;
  bool changed_it = false;  // ourselves, since then
  DiskStats stats;
  Steady::time_point quiet_until;  // for the log

  Steady::time_point refused_until;  // the writer's own
  std::string refusal;
  uint64_t written_since_listing = 0;
  bool about_written = false;

  std::thread writer;

  explicit Impl(DiskOptions o) : options(std::move(o)) {}
  std::string path_of(const DiskRecord& record) const { return record_path(options.directory, record); }
  DiskRecord record_of(const RecordHead& head) const { return disk_record(options.fingerprint, head); }
  void start();

  // `mutex` is held by the caller of these.
  bool make_queue_room(uint64_t bytes, std::vector<Job>* given_up);
  void dropped(const RecordHead& head, const std::string& reason);
  void merge(std::span<const DiskRecord> files, uint64_t listing);
  bool is_idle() const { return queue.empty() && touched.empty() && !busy; }

  struct ReadHead {
    struct stat info {};
    Result<ParsedHead> parsed = Error{ErrorKind::not_found, "evicted"};
  };
  uint64_t begin_listing();
  std::vector<ReadHead> read_heads(std::span<const DiskRecord> records) const;
  std::vector<RecordHead> tell();
  void bad_file(const DiskRecord& record, const struct stat& info, const Error& error);

  // The writer's.
  void run();
  void write(const Job& job);
  void touch(const std::unordered_map<PrefixKey, int64_t>& times);
  bool parent_present(const RecordHead& head);
  bool make_room(uint64_t bytes, const PrefixKey& keep);
  void evict(std::span<const DiskRecord> files, std::span<const size_t> order);
  void write_failed(const std::string& path, const DiskRecord& record, int error);
  void write_about_once();
};

// --- Opening and closing

namespace {

// The folder's change as stat() tells it; 0 when it does not exist.
int64_t changed_ns(const std::string& folder) {
  struct stat info {};
  if (::stat(folder.c_str(), &info) != 0) return 0;
#ifdef __APPLE__
  const timespec& t = info.st_mtimespec;
#else
  const timespec& t = info.st_mtim;
#endif
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

// A record planted by another user would be a wrong state that verifies.
Result<void> check_private(const std::string& path, bool ours_alone) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return {};
    if (errno == ENOTDIR)
      return make_error(ErrorKind::invalid, "{}: a part of this is not a directory", path);
    return make_error(ErrorKind::io, "cannot look at {}: {}", path, std::strerror(errno));
  }
  if (!S_ISDIR(info.st_mode)) return make_error(ErrorKind::invalid, "{} is not a directory", path);
  const bool shared =
      ours_alone ? (info.st_mode & 022) != 0 : (info.st_mode & 02) != 0 && (info.st_mode & S_ISVTX) == 0;
  const bool foreign = ours_alone && info.st_uid != ::geteuid() && ::geteuid() != 0;
  if (shared || foreign)
    return make_error(
        ErrorKind::invalid,
        "other users may write to {}, and a state they left there would be taken for ours: choose "
        "another directory, or chmod 700 it",
        path);
  return {};
}

}  // namespace

Result<std::unique_ptr<DiskStore>> DiskStore::open(DiskOptions options) {
  if (options.directory.empty()) return make_error(ErrorKind::invalid, "the cache directory has no name");
  std::error_code code;
  const auto absolute = std::filesystem::absolute(options.directory, code);
  if (code) return make_error(ErrorKind::io, "cannot find {}: {}", options.directory, code.message());
  options.directory = absolute.lexically_normal().string();
  while (options.directory.size() > 1 && options.directory.back() == '/') options.directory.pop_back();
  if (!options.write) options.write = [](int fd, const void* data, size_t n) { return ::write(fd, data, n); };

  auto impl = std::make_unique<Impl>(std::move(options));
  const std::string& directory = impl->options.directory;
  impl->folder = folder_path(directory, impl->options.fingerprint);
  TRY_VOID(check_private(directory, false));
  int error = make_private_directory(impl->folder);
  TRY_VOID(check_private(impl->folder, true));
  if (!error && ::faccessat(AT_FDCWD, impl->folder.c_str(), W_OK | X_OK, AT_EACCESS) != 0) error = errno;
  if (error == ENOTDIR) return make_error(ErrorKind::invalid, "{} is not a directory", directory);
  impl->stats.writable = error == 0 || error == ENOSPC || error == EDQUOT;
  if (!impl->stats.writable) {
    impl->stats.last_reason = fmt::format("cannot write to {}: {}", directory, std::strerror(error));
    log_warning("state cache: {}; it is only read", impl->stats.last_reason);
  }

  TRY(const auto folders, list_folders(directory));
  if (impl->stats.writable)
    for (const Fingerprint& fingerprint : folders)
      remove_dead_temporaries(folder_path(directory, fingerprint));
  const uint64_t listing = impl->begin_listing();
  TRY(const auto files, list_files(directory));
  {
    const std::lock_guard lock(impl->mutex);
    impl->merge(files, listing);
    impl->stats.files = files.size();
    for (const DiskRecord& file : files) impl->stats.bytes += file.bytes;
    uint64_t& budget = impl->options.budget_bytes;
    if (budget == 0) budget = default_budget(directory, impl->stats.bytes);
    impl->stats.budget_bytes = budget;
  }
  if (impl->stats.writable) impl->start();
  return std::unique_ptr<DiskStore>(new DiskStore(std::move(impl)));
}

DiskStore::DiskStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

// The thread takes no signals of the process's. SIGXFSZ (a limit on the size of files) is then an error of
// write(), no death.
void DiskStore::Impl::start() {
  sigset_t most, before;
  sigfillset(&most);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigdelset(&most, fault);
  ::pthread_sigmask(SIG_SETMASK, &most, &before);
  writer = std::thread([this] { run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

DiskStore::~DiskStore() {
  if (!impl_->writer.joinable()) return;
  std::deque<Job> left;  // destroyed without the lock
  {
    std::unique_lock lock(impl_->mutex);
    impl_->idle.wait_for(lock, Seconds(impl_->options.close_seconds), [&] { return impl_->is_idle(); });
    left.swap(impl_->queue);
    for (const Job& job : left) impl_->dropped(job.head, "the store was closed before it was written");
    impl_->stop = true;
    impl_->abandon = true;
  }
  impl_->work.notify_all();
  impl_->writer.join();
}

// --- What is there

uint64_t DiskStore::Impl::begin_listing() {
  const std::lock_guard lock(mutex);
  return ++listings;
}

// `files`: all of our folder, listed since begin_listing() returned `listing`.
void DiskStore::Impl::merge(std::span<const DiskRecord> files, uint64_t listing) {
  for (const DiskRecord& file : files) {
    if (file.fingerprint != options.fingerprint) continue;
    Known& entry = known.try_emplace(file.key, Known{file, false, listing}).first->second;
    entry.listing = std::max(entry.listing, listing);
  }
  std::erase_if(known, [&](const auto& item) {
    const bool gone = item.second.listing < listing;
    if (gone && item.second.told) missing.emplace(item.first, item.second.record);
    return gone;
  });
}

std::vector<RecordHead> DiskStore::scan() {
  {
    const std::lock_guard lock(impl_->mutex);
    for (auto& [key, entry] : impl_->known) entry.told = false;
  }
  return impl_->tell();
}

std::vector<RecordHead> DiskStore::refresh() {
  const int64_t changed = changed_ns(impl_->folder);
  {
    const std::lock_guard lock(impl_->mutex);
    if (changed == impl_->seen_change) return {};
    if (impl_->changed_it && Steady::now() - impl_->seen_at < std::chrono::seconds(1)) return {};
  }
  return impl_->tell();
}

// Of each file, several at a time: on a disk that has to be waited for, that is several times faster.
std::vector<DiskStore::Impl::ReadHead> DiskStore::Impl::read_heads(
    std::span<const DiskRecord> records) const {
  std::vector<ReadHead> read(records.size());
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i; (i = next++) < records.size();) {
      const std::string path = path_of(records[i]);
      if (::lstat(path.c_str(), &read[i].info) != 0) continue;
      auto& parsed = read[i].parsed = read_head(path);
      if (parsed && parsed->fingerprint != options.fingerprint)
        parsed = make_error(ErrorKind::unsupported, "of fingerprint {}", to_hex(parsed->fingerprint));
      else if (parsed && !same_record(records[i], parsed->head))
        parsed = make_error(ErrorKind::invalid, "damaged: its name is of another record");
    }
  };
  std::vector<std::thread> helpers(std::min<size_t>(7, records.size() / 64));
  for (std::thread& helper : helpers) helper = std::thread(work);
  work();
  for (std::thread& helper : helpers) helper.join();
  return read;
}

// The heads of what was not told yet.
std::vector<RecordHead> DiskStore::Impl::tell() {
  const int64_t now = unix_nanoseconds();
  const int64_t changed = changed_ns(folder);
  const uint64_t listing = begin_listing();
  const auto files = list_folder(options.directory, options.fingerprint, false);
  std::vector<DiskRecord> untold;
  std::unordered_map<PrefixKey, uint32_t> blocks;  // told ones, and their lengths
  {
    const std::lock_guard lock(mutex);
    if (!files) {
      stats.failed++;
      stats.last_reason = files.error().message;
      log_warning("state cache: {}", stats.last_reason);
      return {};
    }
    merge(*files, listing);
    seen_at = Steady::now();
    changed_it = false;
    // A change within the clock's grain of the last one would not be seen.
    seen_change = now - changed > 20'000'000 ? changed : -1;
    for (const auto& [key, entry] : known) {
      if (!entry.told && !set_aside.contains(key))
        untold.push_back(entry.record);
      else if (entry.told && entry.record.kind == RecordKind::block)
        blocks.emplace(key, entry.record.length);
    }
  }
  // Parents before children.
  std::sort(untold.begin(), untold.end(), [](const DiskRecord& a, const DiskRecord& b) {
    return std::tie(a.length, a.kind, a.key) < std::tie(b.length, b.kind, b.key);
  });
  auto read = read_heads(untold);
  std::vector<RecordHead> heads;
  for (size_t i = 0; i < untold.size(); i++) {
    const DiskRecord& record = untold[i];
    if (record.parent_length() > 0) {
      const auto parent = blocks.find(record.parent);
      if (parent == blocks.end() || parent->second != record.parent_length()) continue;
    }
    auto& [info, parsed] = read[i];
    if (!parsed) {
      bad_file(record, info, parsed.error());
      continue;
    }
    if (record.kind == RecordKind::block) blocks.emplace(record.key, record.length);
    heads.push_back(std::move(parsed->head));
  }
  const std::lock_guard lock(mutex);
  for (const RecordHead& head : heads)
    if (const auto entry = known.find(head.key); entry != known.end()) entry->second.told = true;
  return heads;
}

// Counts and logs what is wrong with a file; removes it when it is damaged.
void DiskStore::Impl::bad_file(const DiskRecord& record, const struct stat& info, const Error& error) {
  const std::string path = path_of(record);
  bool removed = error.kind == ErrorKind::not_found;
  if (error.kind == ErrorKind::invalid)
    removed = unlink_same(path, info) || ::access(path.c_str(), F_OK) != 0;
  const std::lock_guard lock(mutex);
  if (removed) {
    known.erase(record.key);
    missing.emplace(record.key, record);
  }
  if (error.kind == ErrorKind::not_found) return;
  stats.last_reason =
      error.kind == ErrorKind::io ? error.message : fmt::format("{}: {}", path, error.message);
  const char* what = "not used";
  if (error.kind == ErrorKind::io) {
    stats.failed++;
  } else {
    if (error.kind == ErrorKind::invalid) stats.corrupt++;
    if (removed) {
      what = "removed";
    } else if (set_aside.insert(record.key).second) {
      if (error.kind == ErrorKind::unsupported) stats.set_aside++;
    } else {
      return;
    }
  }
  log_warning("state cache: {} ({})", stats.last_reason, what);
}

std::vector<DiskRecord> DiskStore::take_missing() {
  const std::lock_guard lock(impl_->mutex);
  std::vector<DiskRecord> records;
  for (const auto& [key, record] : impl_->missing) records.push_back(record);
  impl_->missing.clear();
  return records;
}

// --- Reading

bool DiskStore::has(const RecordHead& head) const {
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->queued.contains(head.key)) return true;
    if (impl_->set_aside.contains(head.key)) return false;
  }
  return ::access(impl_->path_of(impl_->record_of(head)).c_str(), F_OK) == 0;
}

void DiskStore::prefetch(std::span<const RecordHead> heads) const {
  for (const RecordHead& head : heads) read_ahead(impl_->path_of(impl_->record_of(head)));
}

Result<StoredRecord> DiskStore::get(const RecordHead& head) {
  const DiskRecord record = impl_->record_of(head);
  const std::string path = impl_->path_of(record);
  const auto failed = [&](const struct stat& info, const Error& error) {
    impl_->bad_file(record, info, error);
    return error;
  };
  auto mapped = map_record(path);
  if (!mapped) return failed({}, mapped.error());
  auto stored = parse_record(mapped->bytes, impl_->options.fingerprint, mapped->owner);
  if (!stored) {
    Error error = stored.error();
    if (error.kind == ErrorKind::not_found) error.kind = ErrorKind::unsupported;  // of another fingerprint
    return failed(mapped->info, error);
  }
  if (!same_record(record, stored->head))
    return failed(mapped->info, make_error(ErrorKind::invalid, "damaged: its name is of another record"));
  if (stored->head.tokens != head.tokens)
    return make_error(ErrorKind::not_found, "{} holds other tokens with the same key", path);
  const std::lock_guard lock(impl_->mutex);
  impl_->known.try_emplace(head.key, Known{record, true, impl_->listings});
  impl_->stats.read_records++;
  impl_->stats.read_bytes += mapped->bytes.size();
  return stored;
}

void DiskStore::used(std::span<const PrefixKey> from_leaf_to_root) {
  if (!impl_->writer.joinable()) return;
  const std::lock_guard lock(impl_->mutex);
  // Each is a little newer than what stands on it.
  int64_t time = std::max(unix_nanoseconds(), impl_->last_touch + 1);
  for (const PrefixKey& key : from_leaf_to_root)
    if (impl_->known.contains(key)) impl_->touched[key] = time++;
  impl_->last_touch = time;
  impl_->work.notify_one();
}

DiskStats DiskStore::stats() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->stats;
}

// --- Writing

void DiskStore::Impl::dropped(const RecordHead& head, const std::string& reason) {
  if (!known.contains(head.key)) missing.emplace(head.key, record_of(head));
  stats.dropped++;
  stats.last_reason = fmt::format("not written, {} tokens: {}", head.length, reason);
  const auto now = Steady::now();
  if (now < quiet_until) return;
  quiet_until = now + std::chrono::seconds(60);
  log_info("state cache: {} ({} records dropped so far)", stats.last_reason, stats.dropped);
}

// Has the oldest checkpoints in the queue give way, if that is enough for `bytes` more.
bool DiskStore::Impl::make_queue_room(uint64_t bytes, std::vector<Job>* given_up) {
  if (stats.queued_records == 0) return true;
  uint64_t reachable = stats.queued_bytes;
  for (const Job& job : queue)
    if (job.head.kind == RecordKind::checkpoint) reachable -= job.bytes;
  if (reachable + bytes > options.queue_bytes) return false;
  for (auto job = queue.begin(); job != queue.end() && stats.queued_bytes + bytes > options.queue_bytes;) {
    if (job->head.kind != RecordKind::checkpoint) {
      ++job;
      continue;
    }
    dropped(job->head, "the queue is full, and a newer record came");
    stats.queued_bytes -= job->bytes;
    stats.queued_records--;
    queued.erase(job->head.key);
    given_up->push_back(std::move(*job));
    job = queue.erase(job);
  }
  return true;
}

void DiskStore::put(RecordHead head, std::vector<Section> sections) {
  CHECK(head.key == next_key(head.parent, head.tokens), "the key does not belong to the tokens");
  Job job{std::move(head), std::move(sections), kMaxHeadBytes};
  for (const Section& section : job.sections) job.bytes += section.bytes;
  std::vector<Job> given_up;  // destroyed without the lock
  const std::lock_guard lock(impl_->mutex);
  DiskStats& stats = impl_->stats;
  if (!stats.writable) return impl_->dropped(job.head, "the directory cannot be written");
  if (impl_->queued.contains(job.head.key)) return;
  if (!impl_->make_queue_room(job.bytes, &given_up)) return impl_->dropped(job.head, "the queue is full");
  stats.queued_bytes += job.bytes;
  stats.queued_records++;
  impl_->queued.insert(job.head.key);
  impl_->queue.push_back(std::move(job));
  impl_->work.notify_one();
}

void DiskStore::drain() {
  {
    std::unique_lock lock(impl_->mutex);
    impl_->idle.wait(lock, [&] { return impl_->is_idle(); });
    if (!impl_->stats.writable) return;
  }
  // The names too.
  const int fd = ::open(impl_->folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

void DiskStore::Impl::run() {
  make_room(0, {});
  std::unique_lock lock(mutex);
  while (true) {
    if (is_idle()) idle.notify_all();
    work.wait(lock, [&] { return stop || !is_idle(); });
    if (stop && is_idle()) break;
    busy = true;
    std::unordered_map<PrefixKey, int64_t> times;
    times.swap(touched);
    std::optional<Job> job;
    if (!queue.empty()) {
      job = std::move(queue.front());
      queue.pop_front();
    }
    lock.unlock();
    touch(times);
    if (job) write(*job);
    if (job) job->sections.clear();
    lock.lock();
    if (job) {
      stats.queued_bytes -= job->bytes;
      stats.queued_records--;
      queued.erase(job->head.key);
    }
    busy = false;
  }
}

void DiskStore::Impl::touch(const std::unordered_map<PrefixKey, int64_t>& times) {
  for (const auto& [key, time] : times) {
    std::string path;
    {
      const std::lock_guard lock(mutex);
      const auto entry = known.find(key);
      if (entry == known.end()) continue;
      path = path_of(entry->second.record);
    }
    const timespec when{static_cast<time_t>(time / 1'000'000'000), static_cast<long>(time % 1'000'000'000)};
    const timespec both[2] = {when, when};
    // Evicted by another process is no failure; otherwise only its place in the order is lost.
    ::utimensat(AT_FDCWD, path.c_str(), both, AT_SYMLINK_NOFOLLOW);
  }
}

// Without its parent block a record would never be found.
bool DiskStore::Impl::parent_present(const RecordHead& head) {
  if (head.parent_length() == 0) return true;
  const auto path = [&]() -> std::string {
    const std::lock_guard lock(mutex);
    const auto parent = known.find(head.parent);
    return parent == known.end() || set_aside.contains(head.parent) ? std::string()
                                                                    : path_of(parent->second.record);
  };
  const std::string known_path = path();
  if (!known_path.empty()) return ::access(known_path.c_str(), F_OK) == 0;
  const uint64_t listing = begin_listing();  // another process may have written it
  const auto files = list_folder(options.directory, options.fingerprint, false);
  if (!files) return false;
  {
    const std::lock_guard lock(mutex);
    merge(*files, listing);
  }
  return !path().empty();
}

void DiskStore::Impl::write(const Job& job) {
  const auto drop = [&](const std::string& reason) {
    const std::lock_guard lock(mutex);
    dropped(job.head, reason);
  };
  DiskRecord record = record_of(job.head);
  const std::string path = path_of(record);
  if (Steady::now() < refused_until) return drop("the disk refused shortly before: " + refusal);
  if (!parent_present(job.head)) return drop("its parent block is not on disk");
  {
    const std::lock_guard lock(mutex);
    if (!set_aside.contains(record.key) && ::access(path.c_str(), F_OK) == 0) {
      known.try_emplace(record.key, Known{record, true, listings}).first->second.told = true;
      return;
    }
  }
  const EncodedHead encoded = encode_head(options.fingerprint, job.head, job.sections);
  record.bytes = pages(encoded.file_bytes);
  if (!make_room(record.bytes, job.head.parent_length() > 0 ? job.head.parent : PrefixKey{}))
    return drop("the budget has no room for it");
  const int error = write_whole(path, encoded, job.sections, options.write, abandon);
  if (error == ECANCELED) return drop("the store was closed before it was written");
  if (error) return write_failed(path, record, error);
  written_since_listing += record.bytes;
  write_about_once();
  const std::lock_guard lock(mutex);
  changed_it = true;
  set_aside.erase(record.key);
  known[record.key] = Known{record, true, listings};
  missing.erase(record.key);
  stats.written_records++;
  stats.written_bytes += encoded.file_bytes;
  stats.files++;
  stats.bytes += record.bytes;
}

// Beside the first record, and again when someone removed it; a failure does no harm.
void DiskStore::Impl::write_about_once() {
  if (options.about.empty()) return;
  if (about_written && ::access((folder + "/about.txt").c_str(), F_OK) == 0) return;
  write_about(folder, options.about);
  about_written = true;
}

void DiskStore::Impl::write_failed(const std::string& path, const DiskRecord& record, int error) {
  refusal = std::strerror(error);
  // A file too large says nothing about the next one.
  if (error != EFBIG)
    refused_until =
        Steady::now() + std::chrono::duration_cast<Steady::duration>(Seconds(options.retry_seconds));
  const std::lock_guard lock(mutex);
  missing.emplace(record.key, record);
  stats.failed++;
  stats.last_reason = fmt::format("cannot write {}: {}", path, refusal);
  log_warning(
      "state cache: {}{}", stats.last_reason,
      error == EFBIG ? "" : fmt::format("; nothing more is written for {:g} seconds", options.retry_seconds));
}

// --- Eviction

// Has the budget take `bytes` more: evicts when that needs it, never `keep`. Lists the files when the budget
// seems to be reached, and now and then, since other processes write too.
bool DiskStore::Impl::make_room(uint64_t bytes, const PrefixKey& keep) {
  const uint64_t budget = options.budget_bytes;
  if (bytes > budget) return false;
  {
    const std::lock_guard lock(mutex);
    if (stats.bytes + bytes <= budget && written_since_listing <= budget / 32) return true;
  }
  const uint64_t listing = begin_listing();
  const auto files = list_files(options.directory);
  uint64_t total = 0;
  {
    const std::lock_guard lock(mutex);
    if (!files) {
      stats.last_reason = files.error().message;
      return false;
    }
    for (const DiskRecord& file : *files) total += file.bytes;
    merge(*files, listing);
    stats.bytes = total;
    stats.files = files->size();
    written_since_listing = 0;
  }
  if (total + bytes <= budget) return true;
  // A sixteenth more than needed, so that this does not happen for every record.
  const uint64_t goal = total + bytes - std::max(budget / 16 * 15, bytes);
  const auto order = eviction_order(*files, goal, keep);
  uint64_t freed = 0;
  for (const size_t i : order) freed += (*files)[i].bytes;
  if (total - freed + bytes > budget) return false;
  evict(*files, order);
  return true;
}

void DiskStore::Impl::evict(std::span<const DiskRecord> files, std::span<const size_t> order) {
  for (const size_t i : order) {
    const DiskRecord& file = files[i];
    const int error = ::unlink(path_of(file).c_str()) == 0 ? 0 : errno;
    const std::lock_guard lock(mutex);
    if (error && error != ENOENT) {
      stats.failed++;
      stats.last_reason = fmt::format("cannot remove {}: {}", path_of(file), std::strerror(error));
      continue;
    }
    stats.bytes -= std::min(stats.bytes, file.bytes);
    stats.files -= std::min<uint64_t>(stats.files, 1);
    if (file.fingerprint == options.fingerprint) {
      changed_it = true;
      known.erase(file.key);
      missing.emplace(file.key, file);
      set_aside.erase(file.key);
    }
    if (error) continue;  // another process was faster
    stats.evicted++;
    stats.evicted_bytes += file.bytes;
  }
}

}  // namespace anabranch
