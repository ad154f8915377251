#include "hub/repository.h"

#include <algorithm>

#include "base/json.h"
#include "base/outside_text.h"
#include "hub/model_name.h"

namespace anabranch::hub {
namespace {

constexpr size_t kMaxFiles = 20'000;
constexpr uint64_t kMaxFileBytes = uint64_t{1} << 43;  // 8 TiB

const Json& member(const Json& object, const char* key) {
  static const Json none;
  const auto it = object.find(key);
  return it == object.end() ? none : *it;
}

uint64_t number_at(const Json& object, const char* key) {
  const Json& value = member(object, key);
  return value.is_number_unsigned() ? value.get<uint64_t>() : 0;
}

bool is_hex(std::string_view text, size_t digits) {
  return text.size() == digits &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

Result<RepoFile> parse_file(const Json& json) {
  RepoFile file;
  file.path = string_at(json, "rfilename");
  if (!is_safe_path(file.path))
    return make_error(ErrorKind::invalid, "it names a file '{}', which is no path within a model: refused",
                      shown(file.path));
  const Json& lfs = member(json, "lfs");
  const bool in_lfs = lfs.is_object();
  file.oid = in_lfs ? string_at(lfs, "sha256") : string_at(json, "blobId");
  if (in_lfs && file.oid.empty()) file.oid = string_at(lfs, "oid");
  if (!is_hex(file.oid, in_lfs ? 64 : 40) || !member(json, "size").is_number_unsigned())
    return make_error(ErrorKind::invalid, "it tells no size or no hash of {}", shown(file.path));
  file.size = number_at(json, "size");
  if (file.size > kMaxFileBytes)
    return make_error(ErrorKind::exhausted, "it says that {} has {} bytes; at most {} are taken",
                      shown(file.path), file.size, kMaxFileBytes);
  return file;
}

void parse_facts(const Json& json, Repository& out) {
  const Json& gguf = member(json, "gguf");
  out.model_type = string_at(member(json, "config"), "model_type");
  if (out.model_type.empty()) out.model_type = string_at(gguf, "architecture");
  const Json& base = member(member(json, "cardData"), "base_model");
  const Json& first = base.is_array() && !base.empty() ? base.front() : base;
  const auto base_name = first.is_string() ? parse_model_name(first.get<std::string>()) : std::nullopt;
  if (base_name && base_name->text() == base_name->repo) out.base_model = base_name->repo;
  out.parameters = number_at(member(json, "safetensors"), "total");
  if (out.parameters == 0) out.parameters = number_at(gguf, "total");
  out.context = number_at(gguf, "context_length");
}

}  // namespace

Result<Repository> parse_repository(std::string_view text) {
  TRY(const Json json, parse_json(text, {.bytes = kMaxAnswerBytes}));
  if (!json.is_object()) return make_error(ErrorKind::invalid, "it is not a JSON object");
  Repository out;
  out.id = string_at(json, "id");
  out.commit = string_at(json, "sha");
  if (!is_commit(out.commit))
    return make_error(ErrorKind::invalid, "its \"sha\" is '{}', which is no commit", shown(out.commit));
  const Json& gated = member(json, "gated");
  out.gated = gated.is_string() || (gated.is_boolean() && gated.get<bool>());
  const Json& siblings = member(json, "siblings");
  if (!siblings.is_array()) return make_error(ErrorKind::invalid, "it has no list of files (\"siblings\")");
  if (siblings.size() > kMaxFiles)
    return make_error(ErrorKind::exhausted, "it lists {} files; at most {} are read", siblings.size(),
                      kMaxFiles);
  for (const Json& sibling : siblings) {
    TRY(auto file, parse_file(sibling));
    out.files.push_back(std::move(file));
  }
  std::ranges::sort(out.files, {}, &RepoFile::path);
  if (const auto twice = std::ranges::adjacent_find(out.files, {}, &RepoFile::path); twice != out.files.end())
    return make_error(ErrorKind::invalid, "it lists {} twice", shown(twice->path));
  parse_facts(json, out);
  return out;
}

std::vector<std::string> paths_of(const Repository& repository) {
  std::vector<std::string> paths;
  for (const RepoFile& file : repository.files) paths.push_back(file.path);
  return paths;
}

std::vector<std::string> parse_model_list(std::string_view text, size_t most) {
  std::vector<std::string> names;
  const auto json = parse_json(text, {.bytes = kMaxAnswerBytes});
  if (!json || !json->is_array()) return names;
  for (const Json& entry : *json) {
    if (names.size() == most) break;
    const std::string id = string_at(entry, "id");
    if (const auto name = parse_model_name(id); name && name->repo == id) names.push_back(id);
  }
  return names;
}

}  // namespace anabranch::hub
