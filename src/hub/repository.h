// What the hub tells of a repository (the answer of /api/models/ORG/NAME/revision/REVISION?blobs=true).
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
  // In hexadecimal digits: the SHA-256 of a file in LFS (64), else the SHA-1 of the git blob (40). The store
  // names its blobs so.
  std::string oid;
};

struct Repository {
  std::string id;      // as the hub calls it now; it may have been renamed
  std::string commit;  // 40 hexadecimal digits
  bool gated = false;
  std::vector<RepoFile> files;
  std::string model_type;   // config.json's, or the architecture of the GGUF files; "": not told
  std::string base_model;   // what its card says that it was made from; "": nothing
  uint64_t parameters = 0;  // 0: not told
  uint64_t context = 0;     // of GGUF files; 0: not told
};

// The paths of all files, sorted.
std::vector<std::string> paths_of(const Repository& repository);

constexpr size_t kMaxAnswerBytes = 32u << 20;

// Errors (invalid, exhausted) say what is wrong with the answer: no JSON, no commit, a file name that leads
// out of the repository, a size or hash that is missing or absurd, too many files.
Result<Repository> parse_repository(std::string_view json);

// The "id" of each entry of a list of models, at most `most`; none when the text is no such list.
std::vector<std::string> parse_model_list(std::string_view json, size_t most);

}  // namespace anabranch::hub
