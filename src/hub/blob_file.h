// A blob while it is downloaded: <hash>.incomplete grows at its end and gets its name once its hash is right.
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
  // Takes the blob's lock and goes on from what is there. None: another process holds the lock.
  // Error: io, with what to do when the disk is full.
  static Result<std::optional<BlobFile>> open(const Store& store, const std::string& repo,
                                              const RepoFile& file);
  ~BlobFile();
  BlobFile(BlobFile&& other) noexcept;
  BlobFile& operator=(BlobFile&&) = delete;

  bool is_done() const { return done_; }     // the blob is there under its name
  bool resumed() const { return resumed_; }  // some bytes come from an earlier download
  uint64_t size() const { return size_; }    // so far
  // At most the file's size in all. Error: io.
  Result<void> append(std::string_view bytes);
  // Forgets all bytes. Error: io.
  Result<void> restart();
  // With all bytes there: checks the hash and gives the file its name. False: the hash differs, and the bytes
  // are gone. Error: io.
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
