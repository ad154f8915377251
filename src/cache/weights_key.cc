#include "cache/weights_key.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/file_descriptor.h"
#include "base/hash.h"
#include "base/part_name.h"
#include "base/private_file.h"

namespace anabranch {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "weights-";
constexpr std::string_view kTemporary = ".tmp";
constexpr size_t kNameDigits = 16;

int64_t nanoseconds(const timespec& t) {
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

// The times of the last change of the file's contents and of its inode. Only the system can set the second.
std::pair<int64_t, int64_t> changed(const struct stat& info) {
#if defined(__APPLE__)
  return {nanoseconds(info.st_mtimespec), nanoseconds(info.st_ctimespec)};
#else
  return {nanoseconds(info.st_mtim), nanoseconds(info.st_ctim)};
#endif
}

// Whether no other user can have written the file.
bool is_ours(const struct stat& info) {
  return S_ISREG(info.st_mode) && info.st_uid == geteuid() && (info.st_mode & 022) == 0;
}

// The contents of a file of at most `most` bytes; empty if it is larger or cannot be read.
std::string read_whole(int fd, size_t most) {
  std::string text(most + 1, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t n = ::read(fd, text.data() + size, text.size() - size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return {};
    if (n == 0) break;
    size += static_cast<size_t>(n);
  }
  text.resize(size <= most ? size : 0);
  return text;
}

// The XXH3-128 hash of a file's contents, as 32 hexadecimal digits. Error: io.
Result<std::string> content_hash(int fd, const std::string& path) {
  std::vector<char> part(256 << 10);  // small enough for the processor's cache
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), XXH3_freeState);
  XXH3_128bits_reset(state.get());
  while (const ssize_t n = ::read(fd, part.data(), part.size())) {
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return make_error(ErrorKind::io, "cannot read {}: {}", path, std::strerror(errno));
    XXH3_128bits_update(state.get(), part.data(), static_cast<size_t>(n));
  }
  const auto hash = XXH3_128bits_digest(state.get());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

// The hashes of one model's files from the last run. Each file has a line with everything that shows whether
// it is still the same. A cache that another user may have written is ignored.
class KnownHashes {
 public:
  KnownHashes(const std::string& memory, const std::string& model_path) : memory_(memory) {
    if (memory.empty()) return;
    std::error_code ignored;
    const std::string model = fs::absolute(model_path, ignored).lexically_normal().string();
    Fnv1a hash;
    for (const char c : model) hash.add(static_cast<uint8_t>(c));
    name_ = fmt::format("{}{:016x}", kPrefix, hash.value());
    const FileDescriptor directory = open_memory();
    if (!directory.ok()) return;
    const FileDescriptor file(::openat(*directory, name_.c_str(), kFlags | O_RDONLY));
    struct stat info {};
    if (!file.ok() || ::fstat(*file, &info) != 0 || !is_ours(info)) return;
    if (std::string text = read_whole(*file, kMostBytes); text.starts_with(kHeader)) known_ = std::move(text);
  }

  // "<size> <hash in 32 digits>". Error: io.
  Result<std::string> contents_of(const std::string& path) {
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // no FIFO blocks
    struct stat info {};
    if (!file.ok() || ::fstat(*file, &info) != 0)
      return make_error(ErrorKind::io, "cannot open {}: {}", path, std::strerror(errno));
    if (!S_ISREG(info.st_mode)) return make_error(ErrorKind::io, "{} is not a regular file", path);
    const std::string line = describe(path, info);
    std::string hash = known(line);
    if (hash.empty()) {
      fresh_ = true;
      TRY(hash, content_hash(*file, path));
      // If the file was changed or renamed while it was read, its hash is not cached.
      struct stat now {};
      if (!line.empty() && ::fstat(*file, &now) == 0 && describe(path, now) == line)
        text_ += line + hash + "\n";
    } else {
      text_ += line + hash + "\n";
    }
    return fmt::format("{} {}", info.st_size, hash);
  }

  // Does nothing if the file cannot be written, or while another process writes it.
  void save() const {
    if (name_.empty() || !fresh_ || text_.size() > kMostBytes) return;
    if (make_private_directory(memory_) != 0) return;
    const FileDescriptor directory = open_memory();
    if (!directory.ok()) return;
    // A fixed name, so that the file that a killed process left is overwritten.
    const std::string temporary = name_ + std::string(kTemporary);
    const FileDescriptor file(::openat(*directory, temporary.c_str(), kFlags | O_WRONLY | O_CREAT, 0600));
    if (!file.ok() || ::flock(*file, LOCK_EX | LOCK_NB) != 0) return;
    struct stat ours {
    }, named{};  // another process may have renamed it between open() and flock()
    if (::fstat(*file, &ours) != 0 || !is_ours(ours) ||
        ::fstatat(*directory, temporary.c_str(), &named, AT_SYMLINK_NOFOLLOW) != 0 ||
        named.st_ino != ours.st_ino)
      return;
    const bool written = ::ftruncate(*file, 0) == 0 &&
                         ::write(*file, text_.data(), text_.size()) == static_cast<ssize_t>(text_.size());
    if (!written || ::renameat(*directory, temporary.c_str(), *directory, name_.c_str()) != 0)
      ::unlinkat(*directory, temporary.c_str(), 0);
  }

 private:
  static constexpr size_t kMostBytes = 1 << 20, kDigits = 32;
  static constexpr std::string_view kHeader = "anabranch-weights 1\n";
  static constexpr int kFlags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;

  // Fails if other users could replace files in the directory.
  FileDescriptor open_memory() const {
    const int fd = ::open(memory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat info {};
    if (fd < 0 || (::fstat(fd, &info) == 0 && ((info.st_mode & 022) == 0 || (info.st_mode & S_ISVTX) != 0)))
      return FileDescriptor(fd);
    ::close(fd);
    return FileDescriptor(-1);
  }

  // The beginning of a file's line. Empty if the file changed so recently that its times may not show the
  // next change, or if its name has a line break.
  static std::string describe(const fs::path& path, const struct stat& info) {
    const auto [content, inode] = changed(info);
    constexpr int64_t kCoarse = 2'000'000'000;
    if (std::max(content, inode) > unix_nanoseconds() - kCoarse) return {};
    const std::string name = path.filename().string();
    if (name.find('\n') != name.npos) return {};
    return fmt::format("{} {} {} {} {} {} ", name, info.st_dev, info.st_ino, info.st_size, content, inode);
  }

  // The cached hash of the file with this line; empty if there is none.
  std::string known(const std::string& line) const {
    const size_t at = line.empty() ? known_.npos : known_.find("\n" + line);
    if (at == known_.npos) return {};
    const std::string hash = known_.substr(at + 1 + line.size(), kDigits);
    const bool good = hash.size() == kDigits && hash.find_first_not_of("0123456789abcdef") == hash.npos &&
                      known_.compare(at + 1 + line.size() + kDigits, 1, "\n") == 0;
    return good ? hash : std::string();
  }

  std::string memory_, name_, known_, text_{kHeader};
  bool fresh_ = false;
};

}  // namespace

Result<Fingerprint> weights_key(const std::string& model_path, const std::string& memory) {
  std::vector<fs::path> files;
  std::error_code error;
  if (fs::is_directory(model_path, error)) {
    for (const auto& entry : fs::directory_iterator(model_path, error)) {
      const fs::path& path = entry.path();
      const fs::path name = path.filename();
      if (path.extension() == ".safetensors" || name == "config.json" || name == "params.json")
        files.push_back(path);
    }
  } else {
    for (const std::string& part : paths_of_parts(model_path))
      if (part == model_path || fs::exists(part, error)) files.push_back(part);
  }
  if (error) return make_error(ErrorKind::io, "{}: {}", model_path, error.message());
  std::sort(files.begin(), files.end());
  KnownHashes known(memory, model_path);
  std::string text;
  for (const auto& path : files) {
    TRY(const auto contents, known.contents_of(path.string()));
    text += fmt::format("{} {}\n", path.filename().string(), contents);
  }
  known.save();
  return fingerprint_of(text);
}

void forget_weights(const std::string& memory) {
  std::error_code ignored;
  std::vector<fs::path> files;
  for (fs::directory_iterator it(memory, ignored), end; !ignored && it != end; it.increment(ignored)) {
    std::string name = it->path().filename().string();
    if (name.ends_with(kTemporary)) name.resize(name.size() - kTemporary.size());
    if (name.size() == kPrefix.size() + kNameDigits && name.starts_with(kPrefix) &&
        name.find_first_not_of("0123456789abcdef", kPrefix.size()) == name.npos)
      files.push_back(it->path());
  }
  for (const auto& path : files) unlink(path.c_str());
}

}  // namespace anabranch
