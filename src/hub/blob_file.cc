#include "hub/blob_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

namespace anabranch::hub {
namespace {

// The lock's descriptor; -1: another process holds it. The lock file is never removed, so that nobody locks a
// file that somebody else has removed.
Result<int> take_lock(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return make_error(ErrorKind::io, "cannot open the lock {}: {}", path, std::strerror(errno));
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  const int code = errno;
  ::close(fd);
  if (code == EWOULDBLOCK || code == EAGAIN || code == EACCES || code == EINTR) return -1;
  return make_error(ErrorKind::io, "cannot take the lock {}: {}", path, std::strerror(code));
}

}  // namespace

Result<std::optional<BlobFile>> BlobFile::open(const Store& store, const std::string& repo,
                                               const RepoFile& file) {
  TRY(const int lock, take_lock(store.lock_path(repo, file.oid)));
  if (lock < 0) return std::optional<BlobFile>();
  BlobFile blob(store.blob_path(repo, file.oid), file, lock);
  blob.done_ = store.has_blob(repo, file);
  if (!blob.done_) TRY_VOID(blob.open_incomplete());
  return std::optional<BlobFile>(std::move(blob));
}

BlobFile::~BlobFile() {
  if (fd_ >= 0) ::close(fd_);
  if (lock_ >= 0) ::close(lock_);
}

BlobFile::BlobFile(BlobFile&& other) noexcept
    : path_(std::move(other.path_)),
      expected_(std::move(other.expected_)),
      lock_(std::exchange(other.lock_, -1)),
      fd_(std::exchange(other.fd_, -1)),
      size_(other.size_),
      done_(other.done_),
      resumed_(other.resumed_),
      digest_(std::move(other.digest_)) {}

Error BlobFile::failed(const char* what, int code) const {
  if (code == ENOSPC || code == EDQUOT || code == EFBIG)
    return make_error(
        ErrorKind::exhausted,
        "cannot {} {} at byte {}: {}. Free some space, or choose another disk with HF_HUB_CACHE; "
        "what is there is kept, and the same command goes on from it",
        what, incomplete(), size_, std::strerror(code));
  return make_error(ErrorKind::io, "cannot {} {}: {}", what, incomplete(), std::strerror(code));
}

Result<void> BlobFile::open_incomplete() {
  fd_ = ::open(incomplete().c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  struct stat st {};
  if (fd_ < 0 || ::fstat(fd_, &st) != 0) return failed("write", errno);
  if (!S_ISREG(st.st_mode)) return failed("write", EINVAL);
  if (static_cast<uint64_t>(st.st_size) > expected_.size) return restart();
  return add_existing(static_cast<uint64_t>(st.st_size));
}

// Reads the bytes of an earlier download into the digest.
Result<void> BlobFile::add_existing(uint64_t bytes) {
  std::vector<char> buffer(1 << 20);
  while (size_ < bytes) {
    const auto n = ::pread(fd_, buffer.data(), std::min<uint64_t>(buffer.size(), bytes - size_),
                           static_cast<off_t>(size_));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return failed("read", n < 0 ? errno : EIO);
    digest_.add({buffer.data(), static_cast<size_t>(n)});
    size_ += static_cast<uint64_t>(n);
  }
  resumed_ = size_ > 0;
  return {};
}

Result<void> BlobFile::append(std::string_view bytes) {
  if (bytes.size() > expected_.size - size_)
    return make_error(ErrorKind::invalid, "more bytes came than the {} of {}", expected_.size,
                      expected_.path);
  digest_.add(bytes);
  while (!bytes.empty()) {
    const auto n = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(size_));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed("write", errno);
    size_ += static_cast<uint64_t>(n);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

Result<void> BlobFile::restart() {
  if (::ftruncate(fd_, 0) != 0) return failed("empty", errno);
  size_ = 0;
  resumed_ = false;
  digest_ = Digest(expected_.oid, expected_.size);
  return {};
}

Result<bool> BlobFile::finish() {
  if (digest_.finish() != expected_.oid) {
    TRY_VOID(restart());
    ::unlink(incomplete().c_str());
    // The removed file has no name any more, so a second attempt needs a new file.
    ::close(std::exchange(fd_, -1));
    TRY_VOID(open_incomplete());
    return false;
  }
  // The content must reach the disk before the name, in case the machine stops.
  if (::fsync(fd_) != 0) return failed("write", errno);
  if (::rename(incomplete().c_str(), path_.c_str()) != 0) return failed("rename", errno);
  done_ = true;
  return true;
}

}  // namespace anabranch::hub
