// The hub's description of a repository (the answer of /api/models/ORG/NAME/revision/REVISION?blobs=true).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace anabranch::hub {

struct RepoFile {
  std::string path;
  uint64_t size = 0;
  // In hexadecimal digits: the SHA-256 of a file in LFS (64), otherwise the SHA-1 of the git blob (40). It is
  // the blob's name in the store.
  std::string oid;
};

struct Repository {
  std::string id;      // the hub's current name; the repository may have been renamed
  std::string commit;  // 40 hexadecimal digits
  bool gated = false;
  std::vector<RepoFile> files;
  std::string model_type;   // from config.json, or the architecture of the GGUF files; "": unknown
  std::string base_model;   // the model that it was made from, according to its card; "": unknown
  uint64_t parameters = 0;  // 0: unknown
  uint64_t context = 0;     // for GGUF files; 0: unknown
};

// The paths of all files, sorted.
std::vector<std::string> paths_of(const Repository& repository);

constexpr size_t kMaxAnswerBytes = 32u << 20;

// Errors (invalid, exhausted) describe the problem of the answer: not JSON, no commit, a file name that leads
// out of the repository, a size or hash that is missing or absurd, too many files.
Result<Repository> parse_repository(std::string_view json);

// The "id" of each entry of a list of models, at most `most`; empty if the text is not such a list.
std::vector<std::string> parse_model_list(std::string_view json, size_t most);

}  // namespace anabranch::hub
