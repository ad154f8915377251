#include "hub/pull.h"

#include <algorithm>
#include <set>

#include "base/mapped_file.h"
#include "hub/download.h"
#include "hub/model_directory.h"
#include "hub/selection.h"
#include "hub/weight_map.h"

namespace anabranch::hub {
namespace {

std::string model_path(const Store& store, const std::string& repo, const std::string& commit,
                       const ModelFiles& choice) {
  const std::string directory = store.snapshot_directory(repo, commit);
  return choice.main.empty() ? directory : directory + "/" + choice.main;
}

std::string gigabytes(uint64_t bytes) {
  return bytes < 1'000'000'000 ? fmt::format("{:.1f} MB", bytes / 1e6)
                               : fmt::format("{:.1f} GB", bytes / 1e9);
}

// Bytes of the missing blobs. Incomplete blobs count as a whole.
uint64_t missing_bytes(const Store& store, const DownloadPlan& plan) {
  uint64_t bytes = 0;
  std::set<std::string> seen;
  for (const RepoFile& file : plan.files)
    if (seen.insert(file.oid).second && !store.has_blob(plan.name.repo, file)) bytes += file.size;
  return bytes;
}

// One running pull.
class Pull {
 public:
  Pull(const Settings& settings, const ModelName& name, const Watcher& watcher)
      : settings_(settings), watcher_(watcher), api_(settings, watcher_), store_(settings.cache) {
    plan_.name = name;
  }

  Result<PullReport> run(Purpose purpose, const std::function<void(const PullProgress&)>& progress,
                         const Inspector* inspector) {
    const ModelName& name = plan_.name;
    TRY(repository_, api_.repository(name));
    if (!repository_.id.empty() && repository_.id != name.repo)
      watcher_.note(fmt::format("{} is called {} now: use that name", name.repo, repository_.id));
    plan_.commit = repository_.commit;
    TRY(auto selected, choose(purpose, inspector));
    TRY_VOID(plan(selected.choice.files));
    PullReport report{model_path(store_, name.repo, plan_.commit, selected.choice), plan_.commit,
                      repository_.id, plan_.files.size()};
    for (const RepoFile& file : plan_.files) report.bytes += file.size;
    const uint64_t missing = missing_bytes(store_, plan_);
    report.downloaded = early_bytes_ + missing;
    TRY_VOID(check_disk(store_, missing - std::min(missing, partial_bytes()), name));
    TRY_VOID(look_at_tokenizer(selected));
    TRY_VOID(plan(selected.choice.files));
    TRY_VOID(store_.prepare(name.repo));
    TRY_VOID(download(settings_, api_, store_, plan_, watcher_, [&](uint64_t done) {
      progress({done, report.bytes, report.files});
    }));
    TRY_VOID(link());
    TRY_VOID(store_.write_ref(name.repo, name.revision, plan_.commit));
    return report;
  }

 private:
  // Selects the files to download. Error: unsupported (the model cannot run here).
  Result<Selection> choose(Purpose purpose, const Inspector* inspector) {
    const ModelName& name = plan_.name;
    const ReadFile read = [&](const std::string& path) { return text_of(path); };
    // A model that is stored already was checked before, or was wanted anyway.
    if (inspector && is_there(choose_files(paths_of(repository_), name, purpose, read))) inspector = nullptr;
    TRY(auto selected, Selector(api_, inspector, repository_, name, read).select(purpose));
    if (!selected.problem.empty()) return selected.refusal();
    if (!selected.note.empty()) watcher_.note(selected.note);
    return selected;
  }

  bool is_there(const Result<ModelFiles>& choice) {
    if (!choice || !plan(choice->files)) return false;
    return missing_bytes(store_, plan_) == 0;
  }

  // Downloads the files beside the weights first, because the loader may not support the tokenizer. Error:
  // unsupported.
  Result<void> look_at_tokenizer(Selection& selected) {
    if (!selected.inspection || selected.choice.main.ends_with(".gguf")) return {};
    std::vector<std::string> files;
    std::ranges::copy_if(selected.choice.files, std::back_inserter(files),
                         [](const std::string& path) { return !path.ends_with(".safetensors"); });
    TRY_VOID(fetch(files));
    const auto local = [&](const std::string& path) {
      return store_.blob_path(plan_.name.repo, find(path).oid);
    };
    const auto error = selected.inspection->look_again(selected.choice, local);
    if (!error) return {};
    selected.problem = error->message;
    return selected.refusal();
  }

  const RepoFile& find(const std::string& path) const {
    const auto at = std::ranges::lower_bound(repository_.files, path, {}, &RepoFile::path);
    CHECK(at != repository_.files.end() && at->path == path, "{} is no file of the repository", path);
    return *at;
  }

  // Downloads small files before all others.
  Result<void> fetch(const std::vector<std::string>& paths) {
    TRY_VOID(plan(paths));
    const uint64_t missing = missing_bytes(store_, plan_);
    TRY_VOID(check_disk(store_, missing - std::min(missing, partial_bytes()), plan_.name));
    early_bytes_ += missing;
    TRY_VOID(store_.prepare(plan_.name.repo));
    return download(settings_, api_, store_, plan_, watcher_, [](uint64_t) {});
  }

  // The text of a small file of the repository, downloaded through the store.
  Result<std::string> text_of(const std::string& path) {
    if (const RepoFile& file = find(path); file.size > kMaxIndexBytes)
      return make_error(ErrorKind::exhausted,
                        "{} of {} has {} bytes, more than the {} of any index: it is not downloaded", path,
                        plan_.name.repo, file.size, kMaxIndexBytes);
    TRY_VOID(fetch({path}));
    return read_file(store_.blob_path(plan_.name.repo, plan_.files.front().oid), kMaxIndexBytes);
  }

  Result<void> plan(const std::vector<std::string>& paths) {
    plan_.files.clear();
    for (const std::string& path : paths) plan_.files.push_back(find(path));
    return {};
  }

  uint64_t partial_bytes() const {
    uint64_t bytes = 0;
    std::set<std::string> seen;
    for (const RepoFile& file : plan_.files)
      if (seen.insert(file.oid).second)
        bytes += std::min(store_.partial_bytes(plan_.name.repo, file), file.size);
    return bytes;
  }

  // Links weights first: a snapshot with config.json is then complete. But a GGUF model can be used without
  // its tower, so the tower is linked before it.
  Result<void> link() {
    std::ranges::stable_sort(plan_.files, std::greater(), &RepoFile::size);
    std::stable_partition(plan_.files.begin(), plan_.files.end(),
                          [](const RepoFile& file) { return is_vision_tower(file.path); });
    for (const RepoFile& file : plan_.files) {
      if (!store_.has_blob(plan_.name.repo, file))
        return make_error(ErrorKind::io, "{} was removed from {} meanwhile: pull {} again", file.path,
                          store_.root(), plan_.name.text());
      TRY_VOID(store_.link(plan_.name.repo, plan_.commit, file));
    }
    return {};
  }

  const Settings& settings_;
  const Watcher& watcher_;
  Api api_;
  Store store_;
  Repository repository_;
  DownloadPlan plan_;
  uint64_t early_bytes_ = 0;  // downloaded before the files were chosen
};

}  // namespace

Result<void> check_disk(const Store& store, uint64_t bytes, const ModelName& name) {
  const auto free = free_disk(store.root());
  if (!free || bytes == 0 || bytes + kDiskReserve <= *free) return {};
  return make_error(
      ErrorKind::exhausted,
      "{} needs {} on the disk of {}, and {} are free: free some space (`anabranch rm` removes stored "
      "models), or choose another disk with HF_HUB_CACHE",
      name.text(), gigabytes(bytes), store.root(), gigabytes(*free));
}

Result<PullReport> pull(const Settings& settings, const ModelName& name, Purpose purpose,
                        const Watcher& watcher, const std::function<void(const PullProgress&)>& progress,
                        const Inspector* inspector) {
  if (settings.offline)
    return make_error(ErrorKind::invalid,
                      "{} cannot be pulled: HF_HUB_OFFLINE or --offline forbids the network", name.text());
  return Pull(settings, name, watcher).run(purpose, progress, inspector);
}

Result<Offer> look_up(const Settings& settings, const ModelName& name, const Watcher& watcher,
                      const Inspector& inspector) {
  Api api(settings, watcher);
  Offer offer;
  TRY(offer.repository, api.repository(name));
  for (const GgufModel& model : gguf_models(paths_of(offer.repository)))
    offer.quants.push_back(model.quant.empty() ? model.files.front() : model.quant);
  const ReadFile read = [&](const std::string& path) {
    return api.file_text(name, offer.repository.commit, path);
  };
  TRY(auto selected, Selector(api, &inspector, offer.repository, name, read).select(Purpose::model));
  offer.name = selected.name;
  offer.note = selected.note;
  offer.problem = selected.problem;
  offer.instead = selected.instead;
  offer.files = selected.choice.files;
  for (const RepoFile& file : offer.repository.files)
    if (std::ranges::find(offer.files, file.path) != offer.files.end()) offer.bytes += file.size;
  return offer;
}

Result<std::string> find_in_store(const Store& store, const ModelName& name, Purpose purpose) {
  const auto commit = store.commit_of(name.repo, name.revision);
  if (!commit) return make_error(ErrorKind::not_found, "{} is not in {}", name.text(), store.root());
  auto path = find_in_directory(store.snapshot_directory(name.repo, *commit), name, purpose);
  if (!path)
    return make_error(ErrorKind::not_found, "{} is not completely in {}: {}", name.text(), store.root(),
                      path.error().message);
  return path;
}

std::vector<ModelName> stored_names(const Store& store, const ModelName& name) {
  const auto commit = store.commit_of(name.repo, name.revision);
  return commit ? names_of_models(files_below(store.snapshot_directory(name.repo, *commit)), name)
                : std::vector<ModelName>();
}

}  // namespace anabranch::hub
