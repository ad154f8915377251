#include "cache/disk_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <tuple>

#include "base/clock.h"
#include "base/log.h"
#include "base/private_file.h"
#include "cache/disk_store_impl.h"

namespace anabranch {

// --- Opening and closing

namespace {

constexpr Seconds kQuickListing{2e-3};
constexpr double kListingPause = 20;  // times as long as the last listing took

// The folder's modification time; 0 when it does not exist.
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

// Refuses a directory to which other users can write: a record that they plant would pass verification.
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
        "other users may write to {}, and a cache entry that they plant there would be used: choose "
        "another directory, or chmod 700 it",
        path);
  return {};
}

// Removes files of dead writers and older formats.
Result<void> clean_up(const std::string& directory) {
  TRY(const auto folders, list_folders(directory));
  for (const Fingerprint& fingerprint : folders) remove_dead_temporaries(folder_path(directory, fingerprint));
  remove_old_formats(directory);
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
  if (!options.unlink) options.unlink = ::unlink;
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
    log_warning("prefix cache: {}; it is only read", impl->stats.last_reason);
  }

  if (impl->stats.writable) TRY_VOID(clean_up(directory));
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

DiskStore::~DiskStore() {
  if (!impl_->writer.joinable()) return;
  std::deque<WriteJob> left;  // destroyed without the lock
  {
    std::unique_lock lock(impl_->mutex);
    impl_->idle.wait_for(lock, Seconds(impl_->options.close_seconds), [&] { return impl_->is_idle(); });
    left.swap(impl_->queue);
    for (const WriteJob& job : left) impl_->dropped(job.head, "the store was closed before it was written");
    impl_->stop = true;
    impl_->abandon = true;
  }
  impl_->work.notify_all();
  impl_->writer.join();
}

// --- Listing

uint64_t DiskStore::Impl::begin_listing() {
  const std::lock_guard lock(mutex);
  return ++listings;
}

// Updates known_files. files: a listing of our folder that began after begin_listing() returned `listing`.
void DiskStore::Impl::merge(std::span<const DiskRecord> files, uint64_t listing) {
  for (const DiskRecord& file : files) {
    if (file.fingerprint != options.fingerprint) continue;
    KnownFile& entry = known_files.try_emplace(file.key, KnownFile{file, false, listing}).first->second;
    entry.listing = std::max(entry.listing, listing);
  }
  std::erase_if(known_files, [&](const auto& item) {
    const bool gone = item.second.listing < listing;
    if (gone && item.second.reported) missing.emplace(item.first, item.second.record);
    return gone;
  });
}

// Notes that the file exists and that the caller knows it. It may have been missing before, if another
// process wrote it again.
void DiskStore::Impl::set_reported(const DiskRecord& record) {
  known_files.try_emplace(record.key, KnownFile{record, true, listings}).first->second.reported = true;
  missing.erase(record.key);
}

std::vector<RecordHead> DiskStore::scan() {
  {
    const std::lock_guard lock(impl_->mutex);
    for (auto& [key, entry] : impl_->known_files) entry.reported = false;
  }
  return impl_->report_new();
}

std::vector<RecordHead> DiskStore::refresh(bool at_once) {
  const int64_t changed = changed_ns(impl_->folder);
  {
    const std::lock_guard lock(impl_->mutex);
    if (changed == impl_->seen_change) return {};
    const Seconds since = Steady::now() - impl_->seen_at;
    if (!at_once && impl_->changed_it && since < Seconds(1)) return {};
    // Other processes may write all the time, and a large folder takes long to list.
    if (!at_once && impl_->listing_took > kQuickListing && since < kListingPause * impl_->listing_took)
      return {};
  }
  return impl_->report_new();
}

// Reads the heads with several threads, which is several times faster on a slow disk.
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

// Returns the heads of the records that the caller does not know yet.
std::vector<RecordHead> DiskStore::Impl::report_new() {
  const int64_t now = unix_nanoseconds();
  const auto begun = Steady::now();
  const int64_t changed = changed_ns(folder);
  const uint64_t listing = begin_listing();
  const auto files = list_folder(options.directory, options.fingerprint, false);
  std::vector<DiskRecord> unreported;
  std::unordered_map<PrefixKey, uint32_t> blocks;  // blocks that the caller knows, with their lengths
  {
    const std::lock_guard lock(mutex);
    if (!files) {
      stats.failed++;
      stats.last_reason = files.error().message;
      log_warning("prefix cache: {}", stats.last_reason);
      return {};
    }
    merge(*files, listing);
    seen_at = Steady::now();
    listing_took = seen_at - begun;
    changed_it = false;
    // A later change within the clock's resolution would not be seen, so a very recent time is not
    // remembered.
    seen_change = now - changed > 20'000'000 ? changed : -1;
    for (const auto& [key, entry] : known_files) {
      if (!entry.reported && !unusable.contains(key))
        unreported.push_back(entry.record);
      else if (entry.reported && entry.record.kind == RecordKind::block)
        blocks.emplace(key, entry.record.length);
    }
  }
  // Parents before children.
  std::sort(unreported.begin(), unreported.end(), [](const DiskRecord& a, const DiskRecord& b) {
    return std::tie(a.length, a.kind, a.key) < std::tie(b.length, b.kind, b.key);
  });
  auto read = read_heads(unreported);
  std::vector<RecordHead> heads;
  for (size_t i = 0; i < unreported.size(); i++) {
    const DiskRecord& record = unreported[i];
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
    if (const auto entry = known_files.find(head.key); entry != known_files.end())
      set_reported(entry->second.record);
  return heads;
}

// Counts and logs a problem with a file, and removes the file when it is damaged.
void DiskStore::Impl::bad_file(const DiskRecord& record, const struct stat& info, const Error& error) {
  const std::string path = path_of(record);
  bool removed = error.kind == ErrorKind::not_found;
  if (error.kind == ErrorKind::invalid)
    removed = unlink_same(path, info) || ::access(path.c_str(), F_OK) != 0;
  const std::lock_guard lock(mutex);
  if (removed) {
    if (const auto known = known_files.find(record.key); known != known_files.end()) {
      stats.files -= std::min<uint64_t>(stats.files, 1);
      stats.bytes -= std::min(stats.bytes, known->second.record.bytes);
      known_files.erase(known);
    }
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
    } else if (unusable.insert(record.key).second) {
      if (error.kind == ErrorKind::unsupported) stats.unusable++;
    } else {
      return;
    }
  }
  log_warning("prefix cache: {} ({})", stats.last_reason, what);
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
    if (impl_->unusable.contains(head.key)) return false;
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
  impl_->set_reported(record);
  impl_->stats.read_records++;
  impl_->stats.read_bytes += mapped->bytes.size();
  return stored;
}

void DiskStore::mark_unusable(const RecordHead& head, const std::string& reason) {
  impl_->bad_file(impl_->record_of(head), {}, {ErrorKind::unsupported, reason});
}

void DiskStore::used(std::span<const PrefixKey> from_leaf_to_root) {
  if (!impl_->writer.joinable()) return;
  const std::lock_guard lock(impl_->mutex);
  // Each record gets a slightly newer time than its children.
  int64_t time = std::max(unix_nanoseconds(), impl_->last_touch + 1);
  for (const PrefixKey& key : from_leaf_to_root)
    if (impl_->known_files.contains(key)) impl_->touched[key] = time++;
  impl_->last_touch = time;
  impl_->work.notify_one();
}

DiskStats DiskStore::stats() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->stats;
}

}  // namespace anabranch
