// Models by name: found in the store, or brought there from the hub.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "hub/api.h"
#include "hub/file_choice.h"
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
// already. Errors: see Api, choose_files() and download(); exhausted (the disk has too little room).
Result<PullReport> pull(const Settings& settings, const ModelName& name, Purpose purpose,
                        const Watcher& watcher, const std::function<void(const PullProgress&)>& progress);

// What a pull would bring, all of it.
struct Offer {
  Repository repository;
  std::vector<std::string> files;
  uint64_t bytes = 0;
  std::vector<std::string> quants;  // of the repository's GGUF files
};
Result<Offer> look_up(const Settings& settings, const ModelName& name, const Watcher& watcher);

// Error (exhausted): the store's disk has no room for so many bytes.
Result<void> check_disk(const Store& store, uint64_t bytes, const ModelName& name);

// The path of a model that is completely in the store; the hub is not asked.
// Errors: not_found (the revision is not there, or files are missing: then they are named).
Result<std::string> find_in_store(const Store& store, const ModelName& name, Purpose purpose);

}  // namespace anabranch::hub
