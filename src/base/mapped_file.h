// A read-only memory map of a whole file. Shared ownership: tensors that point into the map keep it alive.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace anabranch {

class MappedFile {
 public:
  // Errors: not_found, io (cannot open, stat or map), invalid (not a regular file). An empty file maps to an
  // empty span.
  static Result<std::shared_ptr<const MappedFile>> open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }
  // Frees the memory of pages read so far; they are loaded again when they are read again.
  void release_pages() const;

 private:
  MappedFile(std::string path, const std::byte* data, size_t size)
      : path_(std::move(path)), data_(data), size_(size) {}
  std::string path_;
  const std::byte* data_;
  size_t size_;
};

// Reads a whole text file of at most max_bytes.
Result<std::string> read_file(const std::string& path, size_t max_bytes);

}  // namespace anabranch
