#include "hub/inventory.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "base/mapped_file.h"
#include "base/nearest.h"

namespace anabranch::hub {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> names_in(const std::string& directory) {
  constexpr size_t kMost = 100'000;
  std::vector<std::string> names;
  std::error_code code;
  for (fs::directory_iterator it(directory, code), end; !code && it != end && names.size() < kMost;
       it.increment(code))
    names.push_back(it->path().filename().string());
  std::ranges::sort(names);
  return names;
}

// "org/name" from "models--org--name"; "" for other names.
std::string repo_of(const std::string& folder) {
  constexpr std::string_view kStart = "models--";
  if (!folder.starts_with(kStart)) return "";
  std::string repo = folder.substr(kStart.size());
  if (const size_t between = repo.find("--"); between != repo.npos) repo.replace(between, 2, "/");
  const auto name = parse_model_name(repo);
  return name && name->repo == repo ? repo : "";
}

// The revisions at each commit.
std::map<std::string, std::set<std::string>> refs_of(const Store& store, const std::string& repo) {
  std::map<std::string, std::set<std::string>> refs;
  for (const std::string& revision : files_below(store.repo_directory(repo) + "/refs"))
    if (const auto commit = store.commit_of(repo, revision)) refs[*commit].insert(revision);
  return refs;
}

std::vector<std::string> commits_of(const Store& store, const std::string& repo) {
  auto names = names_in(store.repo_directory(repo) + "/snapshots");
  std::erase_if(names, [](const std::string& name) { return !is_commit(name); });
  return names;
}

uint64_t size_of(const fs::path& file) {
  std::error_code code;
  const auto bytes = fs::is_symlink(file, code) ? 0 : fs::file_size(file, code);
  return code ? 0 : bytes;
}

uint64_t size_below(const std::string& directory) {
  uint64_t bytes = 0;
  std::error_code code;
  for (fs::recursive_directory_iterator it(directory, code), end; !code && it != end; it.increment(code)) {
    std::error_code ignored;
    if (!it->is_directory(ignored)) bytes += size_of(it->path());
  }
  return bytes;
}

void list_repo(const Store& store, const std::string& repo, std::vector<StoredModel>& out) {
  const auto refs = refs_of(store, repo);
  const size_t before = out.size();
  for (const std::string& commit : commits_of(store, repo)) {
    const auto at = refs.find(commit);
    ModelName name{.repo = repo, .revision = commit};
    if (at != refs.end()) name.revision = at->second.contains("main") ? "main" : *at->second.begin();
    for (StoredModel& model : models_in(store.snapshot_directory(repo, commit), name)) {
      model.store = "hub";
      model.commit = commit;
      out.push_back(std::move(model));
    }
  }
  if (out.size() > before) return;
  const std::string blobs = store.repo_directory(repo) + "/blobs";
  const auto names = names_in(blobs);
  if (std::ranges::none_of(names, [](const auto& n) { return n.ends_with(".incomplete"); })) return;
  StoredModel model{
      .name = repo, .path = store.repo_directory(repo), .bytes = size_below(blobs), .store = "hub"};
  model.problem = "its download is not finished";
  out.push_back(std::move(model));
}

// The links of a snapshot that a removal covers, including links whose blobs are gone.
std::vector<fs::path> links_of(const std::string& snapshot, const std::set<std::string>* files) {
  std::vector<fs::path> links;
  std::error_code code;
  for (fs::recursive_directory_iterator it(snapshot, code), end; !code && it != end; it.increment(code)) {
    std::error_code ignored;
    if (fs::is_directory(it->symlink_status(ignored))) continue;
    if (!files || files->contains(it->path().lexically_relative(snapshot).string()))
      links.push_back(it->path());
  }
  return links;
}

// The blob of the repository that a link points to; "": none.
std::string blob_of(const fs::path& link, const std::string& blobs) {
  std::error_code code;
  const fs::path target = fs::read_symlink(link, code);
  if (code) return "";
  const fs::path path = (link.parent_path() / target).lexically_normal();
  return path.parent_path() == fs::path(blobs).lexically_normal() ? path.string() : "";
}

Error not_stored(const Store& store, const ModelName& name) {
  std::vector<std::string> names;
  for (const StoredModel& model : list_store(store)) names.push_back(model.name);
  return make_error(ErrorKind::not_found, "{} is not in {}{}", name.text(), store.root(),
                    did_you_mean(name.text(), names));
}

// The files that are removed with a GGUF model of a snapshot. The vision towers are removed with the last
// model.
std::set<std::string> leaving_with(const ModelFiles& choice, const std::vector<std::string>& paths) {
  std::set<std::string> files(choice.files.begin(), choice.files.end());
  const bool last = std::ranges::all_of(
      gguf_models(paths), [&](const GgufModel& model) { return files.contains(model.files.front()); });
  std::erase_if(files, is_vision_tower);
  if (last) std::ranges::copy_if(paths, std::inserter(files, files.end()), is_vision_tower);
  return files;
}

// The files of the named quantisation, or the named file; none: all files.
Result<std::optional<std::set<std::string>>> wanted_files(const std::string& snapshot,
                                                          const ModelName& name) {
  if (name.quant.empty() && name.file.empty()) return std::optional<std::set<std::string>>();
  const auto paths = files_below(snapshot);
  if (is_vision_tower(name.file) && std::ranges::find(paths, name.file) != paths.end())
    return std::optional(std::set<std::string>{name.file});
  TRY(const auto choice, choose_files(paths, name, Purpose::model, [](const auto&) {
        return Result<std::string>(make_error(ErrorKind::internal, "no index is needed for one file"));
      }));
  if (choice.main.ends_with(".gguf")) return std::optional(leaving_with(choice, paths));
  return std::optional(std::set<std::string>{choice.main});
}

Removal removal_of_all(const Store& store, const std::string& repo) {
  const std::string directory = store.repo_directory(repo);
  return {.directories = {directory, fs::path(store.lock_path(repo, "x")).parent_path().string()},
          .bytes = size_below(directory)};
}

}  // namespace

std::vector<StoredModel> list_store(const Store& store) {
  std::vector<StoredModel> out;
  for (const std::string& folder : names_in(store.root()))
    if (const std::string repo = repo_of(folder); !repo.empty()) list_repo(store, repo, out);
  std::ranges::sort(out, {}, &StoredModel::name);
  return out;
}

Result<Removal> plan_removal(const Store& store, const ModelName& name, bool all_revisions) {
  Removal removal;
  const std::string directory = store.repo_directory(name.repo), blobs = directory + "/blobs";
  const auto commits = commits_of(store, name.repo);
  const auto only = store.commit_of(name.repo, name.revision);
  std::error_code code;
  if (!fs::is_directory(directory, code) || (!all_revisions && !only)) return not_stored(store, name);
  const bool whole = name.quant.empty() && name.file.empty();
  if (whole && (all_revisions || commits == std::vector{*only})) return removal_of_all(store, name.repo);
  std::set<std::string> leaving, staying;  // blobs; "": a file that is not a link to a blob
  for (const std::string& commit : commits) {
    const std::string snapshot = store.snapshot_directory(name.repo, commit);
    std::optional<std::set<std::string>> files = std::set<std::string>{};
    if (all_revisions || commit == *only) {
      auto wanted = wanted_files(snapshot, name);
      if (wanted)
        files = *wanted;
      else if (!all_revisions)
        return wanted.error();
    }
    for (const fs::path& link : links_of(snapshot, nullptr)) {
      const bool leaves = !files || files->contains(link.lexically_relative(snapshot).string());
      (leaves ? leaving : staying).insert(blob_of(link, blobs));
      if (leaves) removal.links.push_back(link.string());
    }
    if (!files) {
      removal.directories.push_back(snapshot);
      for (const std::string& revision : files_below(directory + "/refs"))
        if (store.commit_of(name.repo, revision) == commit)
          removal.links.push_back(directory + "/refs/" + revision);
    }
  }
  if (removal.links.empty()) return not_stored(store, name);
  if (staying.empty()) return removal_of_all(store, name.repo);
  for (const std::string& link : removal.links) removal.bytes += size_of(link);
  for (const std::string& blob : leaving)
    if (!blob.empty() && !staying.contains(blob)) removal.blobs.push_back(blob);
  for (const std::string& blob : removal.blobs) removal.bytes += size_of(blob);
  return removal;
}

Result<void> remove(const Removal& removal) {
  std::string problem;
  const auto note = [&](const std::string& path, const std::error_code& code) {
    if (code && problem.empty()) problem = fmt::format("cannot remove {}: {}", path, code.message());
  };
  // Links first: then no link points to a removed blob if this is interrupted.
  for (const auto* paths : {&removal.links, &removal.blobs})
    for (const std::string& path : *paths) {
      std::error_code code;
      fs::remove(path, code);
      note(path, code);
    }
  for (const std::string& path : removal.directories) {
    std::error_code code;
    fs::remove_all(path + "/snapshots", code);
    fs::remove_all(path, code);
    note(path, code);
  }
  if (!problem.empty()) return Error{ErrorKind::io, problem};
  return {};
}

}  // namespace anabranch::hub
