// Models by name: found in the store, or brought there from the hub.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "hub/api.h"
#include "hub/file_choice.h"
#include "hub/inspection.h"
#include "hub/model_name.h"
#include "hub/settings.h"
#include "hub/store.h"

namespace anabranch::hub {

struct PullProgress {
  uint64_t done = 0, total = 0;  // bytes of all files, those that were there before included
  size_t files = 0;
};

struct PullReport {
  std::string path;  // what to open: the snapshot's directory, or a file in it
  std::string commit;
  std::string id;  // what the hub calls the repository now
  size_t files = 0;
  uint64_t bytes = 0;       // of all of them
  uint64_t downloaded = 0;  // of those that were not there before
};

// Makes the store's copy of the model the newest of its revision. Nothing is downloaded that is there
// already. With an inspector, no weights are downloaded of a model that cannot run here, and a bare name
// takes another model of the repository where its first choice cannot run. Errors: see Api, choose_files()
// and download(); unsupported (it cannot run here; with a model that can); exhausted (the disk has too little
// room).
Result<PullReport> pull(const Settings& settings, const ModelName& name, Purpose purpose,
                        const Watcher& watcher, const std::function<void(const PullProgress&)>& progress,
                        const Inspector* inspector = nullptr);

// What a pull would bring, all of it.
struct Offer {
  Repository repository;
  std::vector<std::string> files;
  uint64_t bytes = 0;
  std::vector<std::string> quants;  // of the repository's GGUF files
  ModelName name;       // another one than was asked for where a bare name's first choice cannot run
  std::string note;     // why it is another one; "": it is not
  std::string problem;  // why it cannot run here; "": nothing is known that prevents it
  std::string instead;  // the name of a model that can run here then; "": none was found
};
Result<Offer> look_up(const Settings& settings, const ModelName& name, const Watcher& watcher,
                      const Inspector& inspector);

// Error (exhausted): the store's disk has no room for so many bytes.
Result<void> check_disk(const Store& store, uint64_t bytes, const ModelName& name);

// The path of a model that is completely in the store; the hub is not asked.
// Errors: not_found (the revision is not there, or files are missing: then they are named).
Result<std::string> find_in_store(const Store& store, const ModelName& name, Purpose purpose);
// The names of all models that the store has of the name's repository and revision, the best choice first.
std::vector<ModelName> stored_names(const Store& store, const ModelName& name);

}  // namespace anabranch::hub
