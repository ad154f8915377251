// Finds models in the store by name, or downloads them from the hub.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "hub/api.h"
#include "hub/inspection.h"
#include "hub/model_files.h"
#include "hub/model_name.h"
#include "hub/settings.h"
#include "hub/store.h"

namespace anabranch::hub {

inline constexpr uint64_t kDiskReserve = 64u << 20;  // disk space that a download leaves free

struct PullProgress {
  uint64_t done = 0, total = 0;  // bytes of all files, including those already stored
  size_t files = 0;
};

struct PullReport {
  std::string path;  // the path to open: the snapshot's directory, or a file in it
  std::string commit;
  std::string id;  // the hub's current name for the repository
  size_t files = 0;
  uint64_t bytes = 0;       // of all files
  uint64_t downloaded = 0;  // of the files that were missing
};

// Updates the store's copy of the model to the newest commit of its revision. Files that are stored already
// are not downloaded. With an inspector, no weights are downloaded for a model that cannot run here, and a
// bare name gets another model of the repository if the first choice cannot run. Errors: see Api,
// choose_files() and download(); unsupported (it cannot run here; names a model that can); exhausted (the
// disk has too little space).
Result<PullReport> pull(const Settings& settings, const ModelName& name, Purpose purpose,
                        const Watcher& watcher, const std::function<void(const PullProgress&)>& progress,
                        const Inspector* inspector = nullptr);

// Everything that a pull would download.
struct Offer {
  Repository repository;
  std::vector<std::string> files;
  uint64_t bytes = 0;
  std::vector<std::string> quants;  // quantisations of the repository's GGUF files
  ModelName name;       // differs from the requested name if a bare name's first choice cannot run
  std::string note;     // why the name differs; "": it does not
  std::string problem;  // why it cannot run here; "": no problem is known
  std::string instead;  // in that case the name of a model that can run here; "": none was found
};
Result<Offer> look_up(const Settings& settings, const ModelName& name, const Watcher& watcher,
                      const Inspector& inspector);

// Error (exhausted): the store's disk has too little space for `bytes`.
Result<void> check_disk(const Store& store, uint64_t bytes, const ModelName& name);

// The path of a model that is completely stored; the hub is not asked.
// Errors: not_found (the revision is not stored, or files are missing: the error names them).
Result<std::string> find_in_store(const Store& store, const ModelName& name, Purpose purpose);
// The names of all stored models of the name's repository and revision, the best choice first.
std::vector<ModelName> stored_names(const Store& store, const ModelName& name);

}  // namespace anabranch::hub
