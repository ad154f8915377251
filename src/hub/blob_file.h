// A blob during its download: <hash>.incomplete grows at its end and gets its final name once its hash is
// verified.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "hub/digest.h"
#include "hub/store.h"

namespace anabranch::hub {

class BlobFile {
 public:
  // Takes the blob's lock and continues from the bytes on disk. None: another process holds the lock. Error:
  // io, with advice when the disk is full.
  static Result<std::optional<BlobFile>> open(const Store& store, const std::string& repo,
                                              const RepoFile& file);
  ~BlobFile();
  BlobFile(BlobFile&& other) noexcept;
  BlobFile& operator=(BlobFile&&) = delete;

  bool is_done() const { return done_; }     // the blob exists under its final name
  bool resumed() const { return resumed_; }  // some bytes come from an earlier download
  uint64_t size() const { return size_; }    // so far
  // Appends; in total at most the file's size. Error: io.
  Result<void> append(std::string_view bytes);
  // Discards all bytes. Error: io.
  Result<void> restart();
  // Call when all bytes are written: checks the hash and gives the file its name. False: the hash differs,
  // and the bytes were discarded. Error: io.
  Result<bool> finish();

 private:
  BlobFile(std::string path, const RepoFile& file, int lock)
      : path_(std::move(path)), expected_(file), lock_(lock), digest_(file.oid, file.size) {}
  Result<void> open_incomplete();
  Result<void> add_existing(uint64_t bytes);
  Error failed(const char* what, int code) const;
  std::string incomplete() const { return path_ + ".incomplete"; }

  std::string path_;
  RepoFile expected_;
  int lock_ = -1, fd_ = -1;
  uint64_t size_ = 0;
  bool done_ = false, resumed_ = false;
  Digest digest_;
};

}  // namespace anabranch::hub
