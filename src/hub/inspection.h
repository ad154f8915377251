// Checks whether a model on the hub can run here, before its weights are downloaded.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hub/api.h"
#include "hub/model_files.h"
#include "hub/replica.h"

namespace anabranch::hub {

// Functions that know the formats of models. The caller provides them, because hub/ does not.
struct Inspector {
  // The length in bytes of the header of a weights file that begins with `first`. If it is more than `first`
  // has, call again with that many bytes. 0: not a weights file.
  std::function<uint64_t(const std::string& path, std::string_view first)> header_bytes;
  // Why the model at a path cannot be opened or run; empty: no obstacle is known. After the headers its
  // weight files contain zeros.
  std::function<std::vector<Error>(const std::string& path)> errors_of;
};

class Inspection {
 public:
  Inspection(Api& api, const Inspector& inspector, const Repository& repository, const ModelName& name)
      : api_(api), inspector_(inspector), repository_(repository), name_(name) {}

  // Why this build cannot run the model that consists of these files; none: no obstacle was found, or it
  // cannot be checked (no connection, a hub without ranges, headers that are too long). Requests config.json
  // and similar files, and then headers: of all parts of a GGUF model, of the safetensors files that together
  // have every kind of tensor. The number of requests is bounded.
  std::optional<Error> look_at(const ModelFiles& choice);

  // Checks again when all files except the weights are on this machine: local(path) is the local path of such
  // a file. Call it after look_at(), for the same files.
  std::optional<Error> look_again(const ModelFiles& choice,
                                  const std::function<std::string(const std::string&)>& local);

 private:
  enum class Known { in_part, as_a_whole };
  std::optional<Error> look_at_directory(const ModelFiles& choice);
  std::optional<Error> look_at_gguf(const ModelFiles& choice);
  // Checks the files in the replica. known: whether it has all files beside the weights; then a missing file
  // is also a reason to refuse the model.
  std::optional<Error> refusal(const ModelFiles& choice, Known known);
  std::optional<std::string> header_of(const RepoFile& file);
  const RepoFile* find(const std::string& path) const;

  Api& api_;
  const Inspector& inspector_;
  const Repository& repository_;
  const ModelName& name_;
  std::optional<Replica> replica_;
  bool hopeless_ = false;  // the files are damaged or incomplete, so looking at more of them is useless
};

}  // namespace anabranch::hub
