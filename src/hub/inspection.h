// Whether a model on the hub can run here, found out before its weights are downloaded.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hub/api.h"
#include "hub/file_choice.h"
#include "hub/replica.h"

namespace anabranch::hub {

// What is asked of those who know the formats.
struct Inspector {
  // How many bytes the header of a weights file has that begins with `first`. More than there are: so
  // many are to be looked at next. 0: it is no such file.
  std::function<uint64_t(const std::string& path, std::string_view first)> header_bytes;
  // Why the model at a path cannot be opened or run; empty: nothing is known that prevents it. Behind the
  // headers of its weights there are zeros.
  std::function<std::vector<Error>(const std::string& path)> errors_of;
};

class Inspection {
 public:
  Inspection(Api& api, const Inspector& inspector, const Repository& repository, const ModelName& name)
      : api_(api), inspector_(inspector), repository_(repository), name_(name) {}

  // Why this build cannot run the model that these files are; none: nothing speaks against it, or it cannot
  // be known (no connection, a hub without ranges, headers that are too long). Asks for config.json and its
  // like, and then for headers: of all parts of a GGUF file, of the safetensors files that together have
  // every kind of tensor. The number of requests is bounded.
  std::optional<Error> look_at(const FileChoice& choice);

  // The same when files beside the weights are on this machine: local(path) is where. To be called after
  // look_at(), for the same files.
  std::optional<Error> look_again(const FileChoice& choice,
                                  const std::function<std::string(const std::string&)>& local);

 private:
  enum class Known { in_part, as_a_whole };
  std::optional<Error> look_at_directory(const FileChoice& choice);
  std::optional<Error> look_at_gguf(const FileChoice& choice);
  // Judges what the replica holds so far.
  std::optional<Error> refusal(const FileChoice& choice, Known known);
  std::optional<std::string> header_of(const RepoFile& file);
  const RepoFile* find(const std::string& path) const;

  Api& api_;
  const Inspector& inspector_;
  const Repository& repository_;
  const ModelName& name_;
  std::optional<Replica> replica_;
  bool hopeless_ = false;  // what is there is damaged or incomplete, so more of it tells nothing
};

}  // namespace anabranch::hub
