// The writing part of DiskStore: the queue, the writer thread, and eviction.
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "base/check.h"
#include "base/log.h"
#include "base/thread_name.h"
#include "cache/disk_store_impl.h"

namespace anabranch {

namespace {

uint64_t pages(uint64_t bytes) {
  return (bytes + 4095) / 4096 * 4096;
}

}  // namespace

// --- Writing

void DiskStore::Impl::dropped(const RecordHead& head, const std::string& reason) {
  if (!known_files.contains(head.key)) missing.emplace(head.key, record_of(head));
  stats.dropped++;
  stats.last_reason = fmt::format("not written, {} tokens: {}", head.length, reason);
  const auto now = Steady::now();
  if (now < quiet_until) return;
  quiet_until = now + std::chrono::seconds(60);
  log_info("prefix cache: {} ({} records dropped so far)", stats.last_reason, stats.dropped);
}

// Drops the oldest queued snapshots, if that makes room for `bytes` more.
bool DiskStore::Impl::make_queue_room(uint64_t bytes, std::vector<WriteJob>* given_up) {
  if (stats.queued_records == 0) return true;
  uint64_t reachable = stats.queued_bytes;
  for (const WriteJob& job : queue)
    if (job.head.kind == RecordKind::snapshot) reachable -= job.bytes;
  if (reachable + bytes > options.queue_bytes) return false;
  for (auto job = queue.begin(); job != queue.end() && stats.queued_bytes + bytes > options.queue_bytes;) {
    if (job->head.kind != RecordKind::snapshot) {
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
  WriteJob job{std::move(head), std::move(sections), kMaxHeadBytes};
  for (const Section& section : job.sections) job.bytes += section.bytes;
  std::vector<WriteJob> given_up;  // destroyed without the lock
  const std::lock_guard lock(impl_->mutex);
  DiskStats& stats = impl_->stats;
  if (!stats.writable) return impl_->dropped(job.head, "the directory cannot be written");
  if (impl_->queued.contains(job.head.key)) return;
  if (impl_->leaving.contains(job.head.key)) return impl_->dropped(job.head, "it is being removed");
  if (!impl_->make_queue_room(job.bytes, &given_up)) return impl_->dropped(job.head, "the queue is full");
  stats.queued_bytes += job.bytes;
  stats.queued_records++;
  impl_->queued.insert(job.head.key);
  impl_->queue.push_back(std::move(job));
  impl_->work.notify_one();
}

// Notes that remove() called unlink() for the record, with this errno or 0. The caller holds `mutex`.
void DiskStore::Impl::removed(const DiskRecord& record, int error) {
  leaving.erase(record.key);
  if (error && error != ENOENT) {
    stats.failed++;
    stats.last_reason = fmt::format("cannot remove {}: {}", path_of(record), std::strerror(error));
    log_warning("prefix cache: {}", stats.last_reason);
    return;
  }
  uint64_t bytes = 0;
  if (const auto known = known_files.find(record.key); known != known_files.end()) {
    bytes = known->second.record.bytes;
    known_files.erase(known);
  }
  missing.emplace(record.key, record);  // the caller may have called put() for it meanwhile
  unusable.erase(record.key);
  if (error) return;
  stats.files -= std::min<uint64_t>(stats.files, 1);
  stats.bytes -= std::min(stats.bytes, bytes);
}

void DiskStore::remove(std::span<const DiskRecord> records) {
  constexpr size_t kBatch = 256;
  std::unordered_set<PrefixKey> keys;
  for (const DiskRecord& record : records) keys.insert(record.key);
  std::deque<WriteJob> given_up;  // destroyed without the lock
  std::unique_lock lock(impl_->mutex);
  DiskStats& stats = impl_->stats;
  std::erase_if(impl_->queue, [&](WriteJob& job) {
    if (!keys.contains(job.head.key)) return false;
    stats.queued_bytes -= job.bytes;
    stats.queued_records--;
    impl_->queued.erase(job.head.key);
    given_up.push_back(std::move(job));
    return true;
  });
  impl_->leaving.insert(keys.begin(), keys.end());
  // Wait for the writer, which may be writing one of them.
  impl_->idle.wait(lock, [&] {
    return std::ranges::none_of(keys, [&](const PrefixKey& key) { return impl_->queued.contains(key); });
  });
  impl_->changed_it = true;
  // Unlink in batches without the lock: the engine needs it, and a disk may be slow.
  for (; !records.empty(); records = records.subspan(std::min(kBatch, records.size()))) {
    const auto batch = records.first(std::min(kBatch, records.size()));
    lock.unlock();
    std::vector<int> errors;
    for (const DiskRecord& record : batch)
      errors.push_back(impl_->options.unlink(impl_->path_of(record).c_str()) == 0 ? 0 : errno);
    lock.lock();
    for (size_t i = 0; i < batch.size(); i++) impl_->removed(batch[i], errors[i]);
  }
}

double DiskStore::bytes_per_second() const {
  const std::lock_guard lock(impl_->mutex);
  const DiskStats& stats = impl_->stats;
  return stats.written_s > 0 ? static_cast<double>(stats.written_bytes) / stats.written_s : kUsualSpeed;
}

void DiskStore::drain() {
  {
    std::unique_lock lock(impl_->mutex);
    impl_->idle.wait(lock, [&] { return impl_->is_idle(); });
    if (!impl_->stats.writable) return;
  }
  // Sync the folder, so that the file names are on disk as well.
  const int fd = ::open(impl_->folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

// Blocks the process's signals on the thread. SIGXFSZ (file size limit) then becomes an error of write()
// instead of ending the process.
void DiskStore::Impl::start() {
  sigset_t most, before;
  sigfillset(&most);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigdelset(&most, fault);
  ::pthread_sigmask(SIG_SETMASK, &most, &before);
  writer = std::thread([this] { run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void DiskStore::Impl::run() {
  name_thread("disk writer");
  make_room(0, {});
  std::unique_lock lock(mutex);
  while (true) {
    idle.notify_all();
    work.wait(lock, [&] { return stop || !is_idle(); });
    if (stop && is_idle()) break;
    busy = true;
    std::unordered_map<PrefixKey, int64_t> times;
    times.swap(touched);
    std::optional<WriteJob> job;
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
      const auto entry = known_files.find(key);
      if (entry == known_files.end()) continue;
      path = path_of(entry->second.record);
    }
    const timespec when{static_cast<time_t>(time / 1'000'000'000), static_cast<long>(time % 1'000'000'000)};
    const timespec both[2] = {when, when};
    // Errors are ignored: the file may have been evicted by another process, or else is only evicted too
    // early.
    ::utimensat(AT_FDCWD, path.c_str(), both, AT_SYMLINK_NOFOLLOW);
  }
}

// A record without its parent block would never be found.
bool DiskStore::Impl::parent_present(const RecordHead& head) {
  if (head.parent_length() == 0) return true;
  const auto path = [&]() -> std::string {
    const std::lock_guard lock(mutex);
    if (leaving.contains(head.parent)) return {};
    const auto parent = known_files.find(head.parent);
    return parent == known_files.end() || unusable.contains(head.parent) ? std::string()
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

void DiskStore::Impl::write(const WriteJob& job) {
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
    if (!unusable.contains(record.key) && ::access(path.c_str(), F_OK) == 0) {
      set_reported(record);
      return;
    }
  }
  const EncodedHead encoded = encode_head(options.fingerprint, job.head, job.sections);
  record.bytes = pages(encoded.file_bytes);
  if (!make_room(record.bytes, job.head.parent_length() > 0 ? job.head.parent : PrefixKey{}))
    return drop("the budget has no room for it");
  const auto begin = Steady::now();
  const int error = write_whole(path, encoded, job.sections, options.write, abandon);
  if (error == ECANCELED) return drop("the store was closed before it was written");
  if (error) return write_failed(path, record, error);
  written_since_listing += record.bytes;
  write_about_once();
  const std::lock_guard lock(mutex);
  changed_it = true;
  unusable.erase(record.key);
  known_files[record.key] = KnownFile{record, true, listings};
  missing.erase(record.key);
  stats.written_records++;
  stats.written_s += std::chrono::duration<double>(Steady::now() - begin).count();
  stats.written_bytes += encoded.file_bytes;
  stats.files++;
  stats.bytes += record.bytes;
}

// Writes about.txt with the first record, and again after someone removed it. Failures are ignored.
void DiskStore::Impl::write_about_once() {
  if (options.about.empty()) return;
  if (about_written && ::access((folder + "/about.txt").c_str(), F_OK) == 0) return;
  write_about(folder, options.about);
  about_written = true;
}

void DiskStore::Impl::write_failed(const std::string& path, const DiskRecord& record, int error) {
  refusal = std::strerror(error);
  // A file that is too large does not mean that the next write fails.
  if (error != EFBIG)
    refused_until =
        Steady::now() + std::chrono::duration_cast<Steady::duration>(Seconds(options.retry_seconds));
  const std::lock_guard lock(mutex);
  missing.emplace(record.key, record);
  stats.failed++;
  stats.last_reason = fmt::format("cannot write {}: {}", path, refusal);
  log_warning(
      "prefix cache: {}{}", stats.last_reason,
      error == EFBIG ? "" : fmt::format("; nothing more is written for {:g} seconds", options.retry_seconds));
}

// --- Eviction

// Makes room for `bytes` more within the budget by eviction, but never evicts `keep`. Lists the files when
// the budget seems to be reached, and now and then, because other processes write, too.
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
  // Free down to 15/16 of the budget, so that not every record causes an eviction.
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
    const bool ours = file.fingerprint == options.fingerprint;
    // A record of ours that is not known any more was taken off when it was found damaged.
    if (!error || !ours || known_files.contains(file.key)) {
      stats.bytes -= std::min(stats.bytes, file.bytes);
      stats.files -= std::min<uint64_t>(stats.files, 1);
    }
    if (ours) {
      changed_it = true;
      known_files.erase(file.key);
      missing.emplace(file.key, file);
      unusable.erase(file.key);
    }
    if (error) continue;  // another process was faster
    stats.evicted++;
    stats.evicted_bytes += file.bytes;
  }
}

}  // namespace anabranch
