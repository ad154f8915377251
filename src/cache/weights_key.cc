#include "cache/weights_key.h"

#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/hash.h"
#include "base/mapped_file.h"
#include "base/private_file.h"

namespace anabranch {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "weights-";
constexpr size_t kNameDigits = 16;

int64_t nanoseconds(const timespec& t) {
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

// The times at which a file was changed, and at which its inode was: nobody sets the second but the system.
std::pair<int64_t, int64_t> changed(const struct stat& info) {
#if defined(__APPLE__)
  return {nanoseconds(info.st_mtimespec), nanoseconds(info.st_ctimespec)};
#else
  return {nanoseconds(info.st_mtim), nanoseconds(info.st_ctim)};
#endif
}

// What the hashes of one model's files were when they were last made: a line for each, with all that says
// whether the file is still the same. Nothing is believed of a file that somebody else may write.
class KnownHashes {
 public:
  KnownHashes(const std::string& memory, const std::string& model_path) {
    if (memory.empty()) return;
    std::error_code ignored;
    const std::string model = fs::absolute(model_path, ignored).lexically_normal().string();
    Fnv1a hash;
    for (const char c : model) hash.add(static_cast<uint8_t>(c));
    path_ = fmt::format("{}/{}{:016x}", memory, kPrefix, hash.value());
    struct stat info {};
    if (::lstat(path_.c_str(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid() ||
        (info.st_mode & 022) != 0)
      return;
    if (auto text = read_file(path_, kMostBytes); text && text->starts_with(kHeader))
      known_ = std::move(*text);
  }

  // The file's hash in 32 digits. Error: io.
  Result<std::string> hash_of(const fs::path& path) {
    const std::string line = describe(path);
    if (const size_t at = known_.find("\n" + line); !line.empty() && at != known_.npos) {
      const std::string hash = known_.substr(at + 1 + line.size(), kDigits);
      if (is_hash(hash) && known_.compare(at + 1 + line.size() + kDigits, 1, "\n") == 0)
        return add(line, hash);
    }
    fresh_ = true;
    TRY(const auto file, MappedFile::open(path.string()));
    const std::string hash = make(*file);
    // Changed while it was read: the next start makes it again.
    return describe(path) == line ? add(line, hash) : hash;
  }

  // Without an effect where it cannot be written.
  void save() const {
    if (path_.empty() || !fresh_ || text_.size() > kMostBytes) return;
    if (make_private_directory(fs::path(path_).parent_path().string()) != 0) return;
    std::string temporary = path_ + ".XXXXXX";
    const int fd = mkstemp(temporary.data());  // made 0600
    if (fd < 0) return;
    const bool written = write(fd, text_.data(), text_.size()) == static_cast<ssize_t>(text_.size());
    if (close(fd) != 0 || !written || std::rename(temporary.c_str(), path_.c_str()) != 0)
      unlink(temporary.c_str());
  }

 private:
  static constexpr size_t kMostBytes = 1 << 20, kDigits = 32;
  static constexpr std::string_view kHeader = "anabranch-weights 1\n";

  static bool is_hash(const std::string& text) {
    return text.size() == kDigits && text.find_first_not_of("0123456789abcdef") == text.npos;
  }

  // The beginning of a file's line; empty: its times may be too coarse to tell of the next change.
  static std::string describe(const fs::path& path) {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) return {};
    const auto [content, inode] = changed(info);
    constexpr int64_t kCoarse = 2'000'000'000;
    if (std::max(content, inode) > unix_nanoseconds() - kCoarse) return {};
    const std::string name = path.filename().string();
    if (name.find('\n') != name.npos) return {};
    return fmt::format("{} {} {} {} {} {} ", name, info.st_dev, info.st_ino, info.st_size, content, inode);
  }

  static std::string make(const MappedFile& file) {
    constexpr size_t kPart =
        16 << 20;  // pages read are given back, so that the file is never in memory as a whole
    const auto bytes = file.bytes();
    XXH3_state_t* state = XXH3_createState();
    XXH3_128bits_reset(state);
    for (size_t at = 0; at < bytes.size(); at += kPart) {
      const auto part = bytes.subspan(at, std::min(kPart, bytes.size() - at));
      XXH3_128bits_update(state, part.data(), part.size());
      file.release_pages();
    }
    const auto hash = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
  }

  const std::string& add(const std::string& line, const std::string& hash) {
    if (!line.empty()) text_ += line + hash + "\n";
    return hash;
  }

  std::string path_, known_, text_{kHeader};
  bool fresh_ = false;
};

}  // namespace

Result<Fingerprint> weights_key(const std::string& model_path, const std::string& memory) {
  std::vector<fs::path> files;
  std::error_code error;
  if (fs::is_directory(model_path, error)) {
    for (const auto& entry : fs::directory_iterator(model_path, error))
      if (entry.path().extension() == ".safetensors" || entry.path().filename() == "config.json")
        files.push_back(entry.path());
  } else {
    files.push_back(model_path);
  }
  if (error) return make_error(ErrorKind::io, "{}: {}", model_path, error.message());
  std::sort(files.begin(), files.end());
  KnownHashes known(memory, model_path);
  std::string text;
  for (const auto& path : files) {
    TRY(const auto hash, known.hash_of(path));
    text += fmt::format("{} {} {}\n", path.filename().string(), fs::file_size(path, error), hash);
  }
  known.save();
  if (error) return make_error(ErrorKind::io, "{}: {}", model_path, error.message());
  return fingerprint_of(text);
}

void forget_weights(const std::string& memory) {
  std::error_code ignored;
  std::vector<fs::path> files;
  for (fs::directory_iterator it(memory, ignored), end; !ignored && it != end; it.increment(ignored)) {
    const std::string name = it->path().filename().string();
    if (name.size() == kPrefix.size() + kNameDigits && name.starts_with(kPrefix) &&
        name.find_first_not_of("0123456789abcdef", kPrefix.size()) == name.npos)
      files.push_back(it->path());
  }
  for (const auto& path : files) unlink(path.c_str());
}

}  // namespace anabranch
