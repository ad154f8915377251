#include "hub/pull.h"

#include <algorithm>
#include <set>

#include "base/mapped_file.h"
#include "hub/download.h"
#include "hub/model_directory.h"
#include "hub/weight_map.h"

namespace anabranch::hub {
namespace {

constexpr uint64_t kDiskReserve = 64u << 20;  // that should stay free

std::string model_path(const Store& store, const std::string& repo, const std::string& commit,
                       const FileChoice& choice) {
  const std::string directory = store.snapshot_directory(repo, commit);
  return choice.main.empty() ? directory : directory + "/" + choice.main;
}

std::string gigabytes(uint64_t bytes) {
  return bytes < 1'000'000'000 ? fmt::format("{:.1f} MB", bytes / 1e6)
                               : fmt::format("{:.1f} GB", bytes / 1e9);
}

// Bytes of the blobs that still have to come; what is there of incomplete ones does not count.
uint64_t missing_bytes(const Store& store, const DownloadPlan& plan) {
  uint64_t bytes = 0;
  std::set<std::string> seen;
  for (const RepoFile& file : plan.files)
    if (seen.insert(file.oid).second && !store.has_blob(plan.name.repo, file)) bytes += file.size;
  return bytes;
}

// A pull under way.
class Pull {
 public:
  Pull(const Settings& settings, const ModelName& name, const Watcher& watcher)
      : settings_(settings),
        watcher_(watcher),
        http_(settings),
        api_(settings, http_, watcher_),
        store_(settings.cache) {
    plan_.name = name;
  }

  Result<PullReport> run(Purpose purpose, const std::function<void(const PullProgress&)>& progress) {
    const ModelName& name = plan_.name;
    TRY(repository_, api_.repository(name));
    if (!repository_.id.empty() && repository_.id != name.repo)
      watcher_.note(fmt::format("{} is called {} now: use that name", name.repo, repository_.id));
    plan_.commit = repository_.commit;
    std::vector<std::string> paths;
    for (const RepoFile& file : repository_.files) paths.push_back(file.path);
    TRY(const auto choice,
        choose_files(paths, name, purpose, [&](const std::string& path) { return text_of(path); }));
    TRY_VOID(plan(choice.files));
    PullReport report{model_path(store_, name.repo, plan_.commit, choice), plan_.commit, repository_.id,
                      plan_.files.size()};
    for (const RepoFile& file : plan_.files) report.bytes += file.size;
    const uint64_t missing = missing_bytes(store_, plan_);
    report.downloaded = index_bytes_ + missing;
    TRY_VOID(check_disk(store_, missing - std::min(missing, partial_bytes()), name));
    TRY_VOID(store_.prepare(name.repo));
    TRY_VOID(download(settings_, api_, store_, plan_, watcher_, [&](uint64_t done) {
      progress({done, report.bytes, report.files});
    }));
    TRY_VOID(link());
    TRY_VOID(store_.write_ref(name.repo, name.revision, plan_.commit));
    return report;
  }

 private:
  // A small file of the repository, by way of the store.
  Result<std::string> text_of(const std::string& path) {
    TRY_VOID(plan({path}));
    index_bytes_ += missing_bytes(store_, plan_);
    TRY_VOID(store_.prepare(plan_.name.repo));
    TRY_VOID(download(settings_, api_, store_, plan_, watcher_, [](uint64_t) {}));
    return read_file(store_.blob_path(plan_.name.repo, plan_.files.front().oid), kMaxIndexBytes);
  }

  Result<void> plan(const std::vector<std::string>& paths) {
    plan_.files.clear();
    for (const std::string& path : paths) {
      const auto at = std::ranges::lower_bound(repository_.files, path, {}, &RepoFile::path);
      CHECK(at != repository_.files.end() && at->path == path, "{} is no file of the repository", path);
      plan_.files.push_back(*at);
    }
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

  // Weights first: a snapshot with config.json then has all that it needs. A GGUF model does without its
  // tower, so the tower goes before it.
  Result<void> link() {
    std::ranges::stable_sort(plan_.files, std::greater(), &RepoFile::size);
    std::ranges::stable_partition(plan_.files, is_vision_tower, &RepoFile::path);
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
  HttpClient http_;
  Api api_;
  Store store_;
  Repository repository_;
  DownloadPlan plan_;
  uint64_t index_bytes_ = 0;  // downloaded before the files were chosen
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
                        const Watcher& watcher, const std::function<void(const PullProgress&)>& progress) {
  if (settings.offline)
    return make_error(ErrorKind::invalid,
                      "{} cannot be pulled: HF_HUB_OFFLINE or --offline forbids the network", name.text());
  return Pull(settings, name, watcher).run(purpose, progress);
}

Result<Offer> look_up(const Settings& settings, const ModelName& name, const Watcher& watcher) {
  HttpClient http(settings);
  Api api(settings, http, watcher);
  Offer offer;
  TRY(offer.repository, api.repository(name));
  std::vector<std::string> paths;
  for (const RepoFile& file : offer.repository.files) paths.push_back(file.path);
  for (const GgufModel& model : gguf_models(paths))
    offer.quants.push_back(model.quant.empty() ? model.files.front() : model.quant);
  TRY(const auto choice, choose_files(paths, name, Purpose::model, [&](const std::string& path) {
        return api.file_text(name, offer.repository.commit, path);
      }));
  offer.files = choice.files;
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

}  // namespace anabranch::hub
