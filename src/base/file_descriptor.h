// A file descriptor that is closed on destruction.
#pragma once

#include <unistd.h>

namespace anabranch {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}  // -1: none
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int operator*() const { return fd_; }
  bool ok() const { return fd_ >= 0; }

 private:
  int fd_;
};

}  // namespace anabranch
