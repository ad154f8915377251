#include "cache/disk_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#ifdef __APPLE__
#include <sys/mount.h>
#else
#include <sys/vfs.h>
#endif
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <queue>
#include <random>
#include <unordered_map>

#include "base/file_descriptor.h"
#include "base/log.h"
#include "base/poison.h"
#include "base/private_file.h"

namespace anabranch {

namespace {

constexpr std::string_view kFolderPrefix = "v2-", kOldFolderPrefix = "v1-", kTemporaryPrefix = "tmp-",
                           kAboutName = "about.txt";
static_assert(kRecordVersion == 2, "folders carry the format's version");

int64_t modified_ns(const struct stat& info) {
#ifdef __APPLE__
  const timespec& t = info.st_mtimespec;
#else
  const timespec& t = info.st_mtim;
#endif
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

// Calls each(directory's descriptor, name) for every entry. Returns errno, or 0.
template <class Each>
int for_each_entry(const std::string& path, const Each& each) {
  DIR* directory = ::opendir(path.c_str());
  if (!directory) return errno;
  int error = 0;
  while (true) {
    errno = 0;
    const dirent* entry = ::readdir(directory);
    if (!entry) {
      error = errno;
      break;
    }
    each(::dirfd(directory), static_cast<const char*>(entry->d_name));
  }
  ::closedir(directory);
  return error;
}

}  // namespace

std::string record_name(const DiskRecord& record) {
  return fmt::format("{}-{}-{:08x}.{}", to_hex(record.key), to_hex(record.parent), record.length,
                     record.kind == RecordKind::block ? "block" : "checkpoint");
}

std::optional<DiskRecord> parse_record_name(std::string_view name) {
  if (name.size() < 74 || name[32] != '-' || name[65] != '-') return std::nullopt;
  DiskRecord record;
  const auto key = key_from_hex(name.substr(0, 32)), parent = key_from_hex(name.substr(33, 32));
  const std::string_view digits = name.substr(66, 8), ending = name.substr(74);
  if (!key || !parent || digits.find_first_not_of("0123456789abcdef") != digits.npos) return std::nullopt;
  if (ending != ".block" && ending != ".checkpoint") return std::nullopt;
  std::from_chars(digits.data(), digits.data() + digits.size(), record.length, 16);
  record.key = *key;
  record.parent = *parent;
  record.kind = ending == ".block" ? RecordKind::block : RecordKind::snapshot;
  if (record.length == 0) return std::nullopt;
  if (record.kind == RecordKind::block && record.length % kBlockTokens != 0) return std::nullopt;
  return record;
}

std::string full_name(const DiskRecord& record) {
  return to_hex(record.fingerprint) + "/" + record_name(record);
}

std::optional<DiskRecord> parse_full_name(std::string_view name) {
  if (name.size() < 33 || name[32] != '/') return std::nullopt;
  const auto fingerprint = key_from_hex(name.substr(0, 32));
  auto record = parse_record_name(name.substr(33));
  if (!fingerprint || !record) return std::nullopt;
  record->fingerprint = *fingerprint;
  return record;
}

std::string folder_path(const std::string& directory, const Fingerprint& fingerprint) {
  return fmt::format("{}/{}{}", directory, kFolderPrefix, to_hex(fingerprint));
}

std::string record_path(const std::string& directory, const DiskRecord& record) {
  return folder_path(directory, record.fingerprint) + "/" + record_name(record);
}

DiskRecord disk_record(const Fingerprint& fingerprint, const RecordHead& head) {
  return {fingerprint, head.kind, head.key, head.parent, head.length, 0, 0};
}

namespace {

// The fingerprint in a folder's name; nullopt when the name has another format.
std::optional<Fingerprint> parse_folder_name(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  return key_from_hex(name.substr(prefix.size()));
}

}  // namespace

Result<std::vector<Fingerprint>> list_folders(const std::string& directory) {
  std::vector<Fingerprint> found;
  const int error = for_each_entry(directory, [&](int, std::string_view name) {
    if (const auto fingerprint = parse_folder_name(name, kFolderPrefix)) found.push_back(*fingerprint);
  });
  if (error && error != ENOENT)
    return make_error(ErrorKind::io, "cannot list {}: {}", directory, std::strerror(error));
  return found;
}

Result<std::vector<DiskRecord>> list_folder(const std::string& directory, const Fingerprint& fingerprint,
                                            bool with_stat) {
  std::vector<DiskRecord> found;
  const std::string folder = folder_path(directory, fingerprint);
  const int error = for_each_entry(folder, [&](int at, const char* name) {
    auto record = parse_record_name(name);
    if (!record) return;
    record->fingerprint = fingerprint;
    if (with_stat) {
      struct stat info {};
      if (::fstatat(at, name, &info, AT_SYMLINK_NOFOLLOW) != 0) return;  // evicted meanwhile
      record->bytes = (static_cast<uint64_t>(info.st_size) + 4095) / 4096 * 4096;
      record->used_at_ns = modified_ns(info);
    }
    found.push_back(*record);
  });
  if (error && error != ENOENT)
    return make_error(ErrorKind::io, "cannot list {}: {}", folder, std::strerror(error));
  return found;
}

Result<std::vector<DiskRecord>> list_files(const std::string& directory) {
  TRY(const auto folders, list_folders(directory));
  std::vector<DiskRecord> all;
  for (const Fingerprint& fingerprint : folders) {
    auto files = list_folder(directory, fingerprint, true);
    if (files) all.insert(all.end(), files->begin(), files->end());
  }
  return all;
}

namespace {

// Removes a temporary file unless its writer still runs: the lock ends with the process that holds it.
bool remove_dead_temporary(int directory, const char* name) {
  const FileDescriptor file(::openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  return file.ok() && ::flock(*file, LOCK_EX | LOCK_NB) == 0 && ::unlinkat(directory, name, 0) == 0;
}

}  // namespace

int remove_dead_temporaries(const std::string& folder) {
  int removed = 0;
  for_each_entry(folder, [&](int at, std::string_view name) {
    if (name.starts_with(kTemporaryPrefix) && remove_dead_temporary(at, name.data())) removed++;
  });
  return removed;
}

void remove_old_formats(const std::string& directory) {
  std::vector<std::string> folders;
  for_each_entry(directory, [&](int at, const char* name) {
    struct stat info {};
    if (parse_folder_name(name, kOldFolderPrefix) && ::fstatat(at, name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISDIR(info.st_mode))
      folders.push_back(fmt::format("{}/{}", directory, name));
  });
  uint64_t files = 0, bytes = 0;
  for (const std::string& folder : folders) {
    for_each_entry(folder, [&](int at, std::string_view name) {
      const bool temporary = name.starts_with(kTemporaryPrefix);
      struct stat info {};
      if (!temporary && name != kAboutName && !parse_record_name(name)) return;
      if (::fstatat(at, name.data(), &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode)) return;
      if (temporary ? !remove_dead_temporary(at, name.data()) : ::unlinkat(at, name.data(), 0) != 0) return;
      files++;
      bytes += static_cast<uint64_t>(info.st_size);
    });
    ::rmdir(folder.c_str());  // fails when something else is in it, which then stays
  }
  if (files > 0)
    log_info("prefix cache: removed {} files ({} bytes) of an older format from {}", files, bytes, directory);
}

std::vector<size_t> eviction_order(std::span<const DiskRecord> files, uint64_t bytes, const PrefixKey& keep) {
  std::unordered_map<PrefixKey, size_t> index;
  for (size_t i = 0; i < files.size(); i++) index[files[i].key] = i;
  std::vector<int> children(files.size());
  const auto parent_of = [&](size_t i) {
    const auto found = files[i].parent_length() > 0 ? index.find(files[i].parent) : index.end();
    return found == index.end() ? files.size() : found->second;
  };
  for (size_t i = 0; i < files.size(); i++)
    if (const size_t parent = parent_of(i); parent < files.size()) children[parent]++;
  const auto later = [&](size_t a, size_t b) { return files[a].used_at_ns > files[b].used_at_ns; };
  std::priority_queue<size_t, std::vector<size_t>, decltype(later)> leaves(later);
  for (size_t i = 0; i < files.size(); i++)
    if (children[i] == 0 && files[i].key != keep) leaves.push(i);

  std::vector<size_t> order;
  for (uint64_t freed = 0; freed < bytes && !leaves.empty();) {
    const size_t next = leaves.top();
    leaves.pop();
    order.push_back(next);
    freed += files[next].bytes;
    const size_t parent = parent_of(next);
    if (parent < files.size() && --children[parent] == 0 && files[parent].key != keep) leaves.push(parent);
  }
  return order;
}

int write_all(int fd, const char* data, uint64_t bytes, const WriteCall& write,
              const std::atomic<bool>& abandon) {
  constexpr uint64_t kPiece = 4 << 20;  // bytes between checks of `abandon`
  while (bytes > 0) {
    if (abandon) return ECANCELED;
    const ssize_t n = write(fd, data, std::min(bytes, kPiece));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : ENOSPC;
    data += n;
    bytes -= static_cast<uint64_t>(n);
  }
  return 0;
}

namespace {

int write_contents(int fd, const EncodedHead& encoded, std::span<const Section> sections,
                   const WriteCall& write, const std::atomic<bool>& abandon) {
  static constexpr char kZeros[kSectionAlignment] = {};
  if (const int error = write_all(fd, encoded.head.data(), encoded.head.size(), write, abandon)) return error;
  uint64_t end = encoded.head.size();
  for (size_t i = 0; i < sections.size(); i++) {
    const SectionEntry& entry = encoded.sections[i];
    if (const int error = write_all(fd, kZeros, entry.offset - end, write, abandon)) return error;
    const char* data = static_cast<const char*>(sections[i].data);
    if (const int error = write_all(fd, data, entry.bytes, write, abandon)) return error;
    end = entry.offset + entry.bytes;
  }
#ifdef __APPLE__
  return ::fsync(fd) == 0 ? 0 : errno;
#else
  return ::fdatasync(fd) == 0 ? 0 : errno;
#endif
}

std::string temporary_name() {
  thread_local std::mt19937_64 random(std::random_device{}());
  return fmt::format("{}{}-{:016x}", kTemporaryPrefix, ::getpid(), random());
}

// Creates and locks a temporary file, so that no other process takes it for a dead writer's, and sets *path.
// Returns the descriptor, or -errno.
int open_temporary(const std::string& folder, std::string* path) {
  for (int attempt = 0; attempt < 3; attempt++) {
    *path = folder + "/" + temporary_name();
    int fd = ::open(path->c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 && errno == ENOENT) {  // someone removed the folder
      if (const int error = make_private_directory(folder)) return -error;
      continue;
    }
    if (fd < 0) return -errno;
    // Another process may have removed the file between open() and flock().
    struct stat info {};
    const bool locked = ::flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
    if (locked && ::fstat(fd, &info) == 0 && info.st_nlink > 0) return fd;
    ::close(fd);
  }
  return -EBUSY;
}

}  // namespace

int write_whole(const std::string& path, const EncodedHead& encoded, std::span<const Section> sections,
                const WriteCall& write, const std::atomic<bool>& abandon) {
  std::string temporary;
  const int fd = open_temporary(path.substr(0, path.find_last_of('/')), &temporary);
  if (fd < 0) return -fd;
  const FileDescriptor file(fd);
  int error = write_contents(*file, encoded, sections, write, abandon);
  if (!error && ::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error) ::unlink(temporary.c_str());
  return error;
}

namespace {

constexpr size_t kMaxAbout = 4096;

std::string about_path(const std::string& folder) {
  return fmt::format("{}/{}", folder, kAboutName);
}

// Removes control characters, which a terminal would execute.
std::string printable(std::string text) {
  std::erase_if(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && c != '\n') || byte == 0x7f;
  });
  return text;
}

// Returns the descriptor, or -errno.
int open_for_reading(const std::string& path, struct stat* info) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return -errno;
  int error = ::fstat(fd, info) == 0 ? 0 : errno;
  if (!error && !S_ISREG(info->st_mode)) error = EINVAL;
  if (!error) return fd;
  ::close(fd);
  return -error;
}

// Fills `to` from `offset` on. Returns errno, or 0.
int read_bytes(int fd, std::span<std::byte> to, size_t offset) {
  while (!to.empty()) {
    const ssize_t n = ::pread(fd, to.data(), to.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : EIO;  // EIO: the file became shorter
    to = to.subspan(static_cast<size_t>(n));
    offset += static_cast<size_t>(n);
  }
  return 0;
}

Error cannot_read(const std::string& path, int error) {
  return make_error(error == ENOENT ? ErrorKind::not_found : ErrorKind::io, "cannot read {}: {}", path,
                    std::strerror(error));
}

// Reads all pages into memory. A read error is reported here; on a later access it would be a signal. Returns
// errno, or 0.
int populate(void* data, size_t bytes) {
  ::madvise(data, bytes, MADV_WILLNEED);
#ifdef MADV_POPULATE_READ
  if (::madvise(data, bytes, MADV_POPULATE_READ) != 0 && errno != EINVAL)
    return errno == EFAULT ? EIO : errno;
#endif
  return 0;
}

}  // namespace

namespace {

// Whether other machines may remove the file while it is read here.
bool is_on_network(int fd) {
  struct statfs system {};
  if (::fstatfs(fd, &system) != 0) return true;
#ifdef __APPLE__
  return (system.f_flags & MNT_LOCAL) == 0;
#else
  constexpr uint32_t kNetwork[] = {0x6969,     0x517b,     0xfe534d42, 0xff534d42,
                                   0x65735546,                                       // NFS, SMB, FUSE
                                   0x01021997, 0x00c36400, 0x0bd00bd0, 0x5346414f};  // 9P, Ceph, Lustre, AFS
  return std::ranges::count(kNetwork, static_cast<uint32_t>(system.f_type)) > 0;
#endif
}

Result<MappedRecord> read_record(int fd, const std::string& path, MappedRecord record) {
  const auto size = static_cast<size_t>(record.info.st_size);
  void* const data =
      std::aligned_alloc(kSectionAlignment, (size / kSectionAlignment + 1) * kSectionAlignment);
  if (!data) return cannot_read(path, ENOMEM);
  record.owner = std::shared_ptr<const void>(data, [](const void* p) { std::free(const_cast<void*>(p)); });
  const std::span bytes(static_cast<std::byte*>(data), size);
  if (const int error = read_bytes(fd, bytes, 0)) return cannot_read(path, error);
  record.bytes = bytes;
  return record;
}

}  // namespace

Result<MappedRecord> map_record(const std::string& path, bool copy) {
  MappedRecord mapped;
  const int fd = open_for_reading(path, &mapped.info);
  if (fd < 0) return cannot_read(path, -fd);
  const FileDescriptor file(fd);
  const auto size = static_cast<size_t>(mapped.info.st_size);
  if (size == 0) return mapped;
  if (copy || is_on_network(*file)) return read_record(*file, path, std::move(mapped));
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, *file, 0);
  if (data == MAP_FAILED) return cannot_read(path, errno);
  poison_beyond_file(data, size);
  mapped.owner = std::shared_ptr<const void>(data, [size](const void* p) {
    unpoison_file(p, size);
    ::munmap(const_cast<void*>(p), size);
  });
  if (const int error = populate(data, size)) return cannot_read(path, error);
  mapped.bytes = {static_cast<const std::byte*>(data), size};
  return mapped;
}

int write_about(const std::string& folder, const std::string& text) {
  const std::string about = printable(text.substr(0, kMaxAbout));
  if (read_about(folder) == about) return 0;
  std::string temporary;
  const int fd = open_temporary(folder, &temporary);
  if (fd < 0) return -fd;
  const FileDescriptor file(fd);
  const std::atomic<bool> never{false};
  const WriteCall write = [](int to, const void* data, size_t n) { return ::write(to, data, n); };
  int error = write_all(*file, about.data(), about.size(), write, never);
  if (!error && ::rename(temporary.c_str(), about_path(folder).c_str()) != 0) error = errno;
  if (error) ::unlink(temporary.c_str());
  return error;
}

std::string read_about(const std::string& folder) {
  struct stat info {};
  const int fd = open_for_reading(about_path(folder), &info);
  if (fd < 0) return {};
  const FileDescriptor file(fd);
  std::string text(kMaxAbout, '\0');
  const ssize_t n = ::read(*file, text.data(), text.size());
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return printable(std::move(text));
}

void remove_about(const std::string& folder) {
  ::unlink(about_path(folder).c_str());
}

std::optional<uint64_t> free_space(const std::string& directory) {
  struct statvfs disk {};
  if (::statvfs(directory.c_str(), &disk) != 0) return std::nullopt;
  return static_cast<uint64_t>(disk.f_bavail) * disk.f_frsize;
}

uint64_t default_budget(const std::string& directory, uint64_t used) {
  constexpr uint64_t kMost = 32ull << 30;
  const auto free = free_space(directory);
  return free ? std::min(kMost, (*free + used) / 10) : kMost / 8;
}

void read_ahead(const std::string& path) {
#ifdef POSIX_FADV_WILLNEED
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.ok()) ::posix_fadvise(*file, 0, 0, POSIX_FADV_WILLNEED);
#else
  (void)path;
#endif
}

Result<ParsedHead> read_head(const std::string& path) {
  struct stat info {};
  const int fd = open_for_reading(path, &info);
  if (fd < 0) return cannot_read(path, -fd);
  const FileDescriptor file(fd);
  const auto size = static_cast<uint64_t>(info.st_size);
  // Most heads fit into a page.
  const size_t most = std::min<uint64_t>(kMaxHeadBytes, size), first = std::min<uint64_t>(4096, size);
  std::vector<std::byte> bytes(first);
  if (const int error = read_bytes(*file, bytes, 0)) return cannot_read(path, error);
  auto parsed = parse_head(bytes);
  if (!parsed && parsed.error().kind == ErrorKind::invalid && most > first) {
    bytes.resize(most);
    if (const int error = read_bytes(*file, std::span(bytes).subspan(first), first))
      return cannot_read(path, error);
    parsed = parse_head(bytes);
  }
  if (parsed && size != parsed->file_bytes)
    return make_error(ErrorKind::invalid, "damaged: {} bytes instead of {}", size, parsed->file_bytes);
  return parsed;
}

bool same_record(const DiskRecord& name, const RecordHead& head) {
  return name.kind == head.kind && name.key == head.key && name.parent == head.parent &&
         name.length == head.length;
}

bool unlink_same(const std::string& path, const struct stat& info) {
  struct stat now {};
  if (::lstat(path.c_str(), &now) != 0 || now.st_ino != info.st_ino || now.st_dev != info.st_dev)
    return false;
  return ::unlink(path.c_str()) == 0;
}

}  // namespace anabranch
