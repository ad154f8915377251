#include "hub/inspection.h"

#include <algorithm>

namespace anabranch::hub {
namespace {

constexpr uint64_t kMostBytes = 64u << 20;  // per header
constexpr uint64_t kConfigBytes = 1u << 20;
constexpr size_t kMostParts = 16;  // per GGUF model
constexpr size_t kMostShards = 8;  // safetensors files

}  // namespace

std::optional<Error> Inspection::look_at(const ModelFiles& choice) {
  replica_ = Replica::make();
  if (!replica_) return std::nullopt;
  return choice.main.ends_with(".gguf") ? look_at_gguf(choice) : look_at_directory(choice);
}

std::optional<Error> Inspection::look_again(const ModelFiles& choice,
                                            const std::function<std::string(const std::string&)>& local) {
  if (!replica_ || hopeless_ || choice.main.ends_with(".gguf")) return std::nullopt;
  for (const std::string& path : choice.files)
    if (!path.ends_with(".safetensors") && path != kIndexFile && !replica_->link(path, local(path)))
      return std::nullopt;
  return refusal(choice, Known::as_a_whole);
}

// Checks step by step, because most refusals follow from config.json alone, or from the first header.
std::optional<Error> Inspection::look_at_directory(const ModelFiles& choice) {
  const std::string* weights = nullptr;
  for (const std::string& path : choice.files) {
    if (!weights && path.ends_with(".safetensors")) weights = &path;
    const RepoFile* file = find(path);
    if (!is_config(path) || !file || file->size == 0 || file->size > kConfigBytes) continue;
    const auto text = api_.part_of_file(name_, repository_.commit, path, 0, file->size);
    if (!text || !replica_->write(path, *text)) return std::nullopt;
  }
  if (!weights || !replica_->write_empty_safetensors(*weights)) return std::nullopt;
  if (!choice.index.empty() && !replica_->write(kIndexFile, choice.index)) return std::nullopt;
  if (auto error = refusal(choice, Known::in_part); error || hopeless_) return error;
  std::vector<std::string> telling = choice.telling;
  if (telling.empty()) telling.push_back(*weights);
  for (size_t i = 0; i < std::min(telling.size(), kMostShards); i++) {
    const RepoFile* file = find(telling[i]);
    const auto header = file ? header_of(*file) : std::nullopt;
    if (!header || !replica_->write(telling[i], *header, file->size)) return std::nullopt;
    if (auto error = refusal(choice, Known::in_part); error || hopeless_) return error;
  }
  return std::nullopt;
}

std::optional<Error> Inspection::look_at_gguf(const ModelFiles& choice) {
  size_t parts = 0;
  for (const std::string& path : choice.files) {
    const RepoFile* file = find(path);
    if (is_vision_tower(path) || !file || parts++ == kMostParts) continue;
    const auto header = header_of(*file);
    if (!header || !replica_->write(path, *header, file->size)) return std::nullopt;
  }
  return refusal(choice, Known::in_part);
}

std::optional<Error> Inspection::refusal(const ModelFiles& choice, Known known) {
  const std::string& directory = replica_->directory();
  const auto errors = inspector_.errors_of(choice.main.empty() ? directory : directory + "/" + choice.main);
  for (const Error& error : errors)
    if (error.kind == ErrorKind::unsupported ||
        (known == Known::as_a_whole && error.kind == ErrorKind::not_found))
      return Error{ErrorKind::unsupported, replica_->with_repo(error.message, name_.repo)};
  hopeless_ = std::ranges::any_of(errors, [](const Error& e) { return e.kind == ErrorKind::invalid; });
  return std::nullopt;
}

// The header of a weights file. None: the file is unavailable or has no header, or the header is too long.
std::optional<std::string> Inspection::header_of(const RepoFile& file) {
  std::string bytes;
  while (true) {
    const uint64_t needed = inspector_.header_bytes(file.path, bytes);
    if (needed == 0) return std::nullopt;
    if (needed <= bytes.size()) return bytes.substr(0, needed);
    const uint64_t wanted = std::min({needed, file.size, kMostBytes});
    if (wanted <= bytes.size()) return std::nullopt;
    const auto more = api_.part_of_file(name_, repository_.commit, file.path, bytes.size(), wanted);
    if (!more) return std::nullopt;
    bytes += *more;
  }
}

const RepoFile* Inspection::find(const std::string& path) const {
  const auto at = std::ranges::lower_bound(repository_.files, path, {}, &RepoFile::path);
  return at != repository_.files.end() && at->path == path ? &*at : nullptr;
}

}  // namespace anabranch::hub
