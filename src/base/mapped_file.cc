#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/poison.h"

namespace anabranch {

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a FIFO must not block
  if (fd < 0)
    return make_error(errno == ENOENT ? ErrorKind::not_found : ErrorKind::io, "cannot open {}: {}", path,
                      std::strerror(errno));
  struct stat st {};
  if (::fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
    ::close(fd);
    return make_error(ErrorKind::invalid, "{} is not a regular file", path);
  }
  const auto size = static_cast<size_t>(st.st_size);
  void* data = nullptr;
  if (size > 0) {
    data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
      const int code = errno;
      ::close(fd);
      return make_error(ErrorKind::io, "cannot map {} ({} bytes): {}", path, size, std::strerror(code));
    }
    poison_beyond_file(data, size);
  }
  ::close(fd);
  return std::shared_ptr<const MappedFile>(new MappedFile(path, static_cast<const std::byte*>(data), size));
}

MappedFile::~MappedFile() {
  if (size_ == 0) return;
  unpoison_file(data_, size_);
  ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::release_pages() const {
  if (size_ > 0) ::madvise(const_cast<std::byte*>(data_), size_, MADV_DONTNEED);
}

Result<std::string> read_file(const std::string& path, size_t max_bytes) {
  TRY(auto file, MappedFile::open(path));
  const auto bytes = file->bytes();
  if (bytes.size() > max_bytes)
    return make_error(ErrorKind::exhausted, "{} has {} bytes; at most {} are read", path, bytes.size(),
                      max_bytes);
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace anabranch
