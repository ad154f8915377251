// The directory that Hugging Face's tools share (~/.cache/huggingface/hub), in their layout:
//
//   models--ORG--NAME/blobs/<hash>                 content of files, named by hash
//   models--ORG--NAME/blobs/<hash>.incomplete      the beginning of one, while it is downloaded
//   models--ORG--NAME/snapshots/<commit>/<path>    relative links to blobs
//   models--ORG--NAME/refs/<revision>              the commit that a branch or tag was at
//   .locks/models--ORG--NAME/<hash>.lock           held (flock) by who writes the blob
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "hub/repository.h"

namespace anabranch::hub {

class Store {
 public:
  explicit Store(std::string root) : root_(std::move(root)) {}

  const std::string& root() const { return root_; }
  std::string repo_directory(const std::string& repo) const;
  std::string snapshot_directory(const std::string& repo, const std::string& commit) const;
  std::string blob_path(const std::string& repo, const std::string& oid) const;
  std::string lock_path(const std::string& repo, const std::string& oid) const;

  // Makes the directories that a repository's files go to. Error: io.
  Result<void> prepare(const std::string& repo) const;

  // The commit of a branch, tag or commit name; none if the store does not know it.
  std::optional<std::string> commit_of(const std::string& repo, const std::string& revision) const;
  // Whether the blob exists with this size.
  bool has_blob(const std::string& repo, const RepoFile& file) const;
  // Bytes of the blob that an unfinished download has left.
  uint64_t partial_bytes(const std::string& repo, const RepoFile& file) const;

  // Makes a snapshot's file a link to its blob, which must exist. An existing regular file stays. Error: io.
  Result<void> link(const std::string& repo, const std::string& commit, const RepoFile& file) const;
  // Records the commit of a branch or tag; does nothing for a commit's own name. Error: io.
  Result<void> write_ref(const std::string& repo, const std::string& revision,
                         const std::string& commit) const;

 private:
  std::string root_;
};

// Bytes that can still be written under `directory`, or under its nearest parent that exists; none if the
// system does not report it.
std::optional<uint64_t> free_disk(const std::string& directory);

}  // namespace anabranch::hub
