#include "hub/other_stores.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "base/json.h"
#include "base/mapped_file.h"
#include "base/nearest.h"

namespace anabranch::hub {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kOllama = "ollama:";
constexpr const char* kUsualHost = "registry.ollama.ai/library/";
constexpr const char* kOtherUsersHost = "registry.ollama.ai/";

std::string home() {
  const char* home = std::getenv("HOME");
  return home ? home : "";
}

void add_directory(std::vector<std::string>& out, const std::string& path) {
  std::error_code code;
  if (fs::is_directory(path, code) && std::ranges::find(out, path) == out.end()) out.push_back(path);
}

// The path below manifests/ of the manifest for "NAME:TAG".
std::string manifest_of(std::string name) {
  const size_t colon = name.rfind(':');
  const std::string tag = colon == name.npos ? "latest" : name.substr(colon + 1);
  name = name.substr(0, colon);
  const auto slashes = std::ranges::count(name, '/');
  return (slashes == 0 ? kUsualHost : slashes == 1 ? kOtherUsersHost : "") + name + "/" + tag;
}

// The reverse: the name as `ollama list` shows it.
std::string name_of_manifest(const std::string& path) {
  std::string name = path;
  for (const std::string start : {kUsualHost, kOtherUsersHost})
    if (name.starts_with(start)) {
      name = name.substr(start.size());
      break;
    }
  const size_t slash = name.rfind('/');
  return slash == name.npos ? name : name.replace(slash, 1, ":");
}

struct OllamaModel {
  std::string blob;  // the GGUF file
  uint64_t bytes = 0;
};

// Reads the model that a manifest describes.
Result<OllamaModel> read_manifest(const std::string& directory, const std::string& manifest) {
  constexpr size_t kMaxBytes = 1 << 20;
  const std::string path = directory + "/manifests/" + manifest;
  TRY(const auto text, read_file(path, kMaxBytes));
  const auto json = parse_json(text);
  const auto layers = json && json->is_object() ? json->find("layers") : Json::const_iterator();
  if (!json || !json->is_object() || layers == json->end() || !layers->is_array())
    return make_error(ErrorKind::invalid, "{} is no manifest of Ollama", path);
  for (const Json& layer : *layers)
    if (string_at(layer, "mediaType") == "application/vnd.ollama.image.adapter")
      return make_error(
          ErrorKind::unsupported,
          "{} adds an adapter (LoRA) to a model, and a model is read without one: use the model that "
          "it is made from, and give the adapter with --lora",
          path);
  for (const Json& layer : *layers) {
    if (string_at(layer, "mediaType") != "application/vnd.ollama.image.model") continue;
    std::string digest = string_at(layer, "digest");
    if (const size_t colon = digest.find(':'); colon != digest.npos) digest[colon] = '-';
    if (!is_safe_path(digest) || digest.find('/') != digest.npos) break;
    const std::string blob = directory + "/blobs/" + digest;
    struct stat st {};
    if (::stat(blob.c_str(), &st) != 0)
      return make_error(ErrorKind::not_found,
                        "{} names the file {}, which is not there: pull it again with Ollama", path, blob);
    return OllamaModel{blob, static_cast<uint64_t>(st.st_size)};
  }
  return make_error(ErrorKind::unsupported, "{} describes no model in a GGUF file", path);
}

// Makes a link whose name says what the file is.
Result<std::string> link_to(const std::string& blob, const fs::path& link) {
  std::error_code code;
  fs::create_directories(link.parent_path(), code);
  if (fs::read_symlink(link, code) == blob) return link.string();
  const std::string temporary = fmt::format("{}.{}", link.string(), ::getpid());
  ::unlink(temporary.c_str());
  if (::symlink(blob.c_str(), temporary.c_str()) != 0 || ::rename(temporary.c_str(), link.c_str()) != 0)
    return make_error(ErrorKind::io, "cannot make the link {} to {}", link.string(), blob);
  return link.string();
}

}  // namespace

bool is_ollama_name(std::string_view text) {
  return text.starts_with(kOllama);
}

std::vector<std::string> ollama_directories() {
  std::vector<std::string> out;
  if (const char* models = std::getenv("OLLAMA_MODELS"); models && *models) add_directory(out, models);
  add_directory(out, home() + "/.ollama/models");
  add_directory(out, "/usr/share/ollama/.ollama/models");  // of its system service
  return out;
}

std::vector<std::string> lm_studio_directories() {
  std::vector<std::string> out;
  // LM Studio's files may have been moved: this file contains the new path.
  if (const auto pointer = read_file(home() + "/.lmstudio-home-pointer", 4096))
    add_directory(out, pointer->substr(0, pointer->find_first_of("\r\n")) + "/models");
  add_directory(out, home() + "/.lmstudio/models");
  add_directory(out, home() + "/.cache/lm-studio/models");
  return out;
}

Result<std::string> find_ollama_model(const std::vector<std::string>& directories, std::string_view text,
                                      const std::string& links) {
  const std::string name(text.substr(std::min(text.size(), kOllama.size())));
  const std::string manifest = manifest_of(name);
  if (!is_safe_path(manifest))
    return make_error(ErrorKind::invalid,
                      "'{}' is no name of an Ollama model: give ollama:NAME or ollama:NAME:TAG", text);
  for (const std::string& directory : directories) {
    const auto model = read_manifest(directory, manifest);
    if (model) return link_to(model->blob, links + "/" + name_of_manifest(manifest) + ".gguf");
    std::error_code code;
    if (model.error().kind != ErrorKind::not_found || fs::exists(directory + "/manifests/" + manifest, code))
      return model.error();
  }
  std::vector<std::string> names;
  for (const auto& model : list_ollama(directories)) names.push_back(model.name);
  return make_error(ErrorKind::not_found,
                    "Ollama has no model {} here{}; `anabranch ls` shows those that there are", name,
                    did_you_mean(std::string(kOllama) + name_of_manifest(manifest), names));
}

Result<std::string> find_lm_studio_model(const std::vector<std::string>& directories, const ModelName& name,
                                         Purpose purpose) {
  std::error_code code;
  for (const std::string& directory : directories)
    if (const std::string own = directory + "/" + name.repo;
        name.revision == "main" && fs::is_directory(own, code))
      if (auto path = find_in_directory(own, name, purpose)) return path;
  return make_error(ErrorKind::not_found, "LM Studio has no {} here", name.text());
}

std::vector<StoredModel> list_ollama(const std::vector<std::string>& directories) {
  std::vector<StoredModel> out;
  for (const std::string& directory : directories)
    for (const std::string& manifest : files_below(directory + "/manifests")) {
      StoredModel model{
          .name = std::string(kOllama) + name_of_manifest(manifest), .format = "GGUF", .store = "Ollama"};
      struct stat st {};
      if (::stat((directory + "/manifests/" + manifest).c_str(), &st) == 0)
        model.modified_ns = int64_t{st.st_mtime} * 1'000'000'000;
      if (const auto found = read_manifest(directory, manifest)) {
        model.path = found->blob;
        model.bytes = found->bytes;
      } else {
        model.path = directory + "/manifests/" + manifest;
        model.problem = found.error().message;
      }
      out.push_back(std::move(model));
    }
  std::ranges::sort(out, {}, &StoredModel::name);
  return out;
}

std::vector<StoredModel> list_lm_studio(const std::vector<std::string>& directories) {
  std::vector<StoredModel> out;
  std::error_code code;
  for (const std::string& directory : directories)
    for (fs::directory_iterator org(directory, code), end; !code && org != end; org.increment(code)) {
      std::error_code inner;
      for (fs::directory_iterator it(org->path(), inner); !inner && it != end; it.increment(inner)) {
        const auto name =
            parse_model_name(org->path().filename().string() + "/" + it->path().filename().string());
        if (!name) continue;
        for (StoredModel& model : models_in(it->path().string(), *name)) {
          model.store = "LM Studio";
          out.push_back(std::move(model));
        }
      }
    }
  std::ranges::sort(out, {}, &StoredModel::name);
  return out;
}

}  // namespace anabranch::hub
