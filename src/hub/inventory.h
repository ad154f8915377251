// Lists the models in the store, and removes them.
#pragma once

#include <string>
#include <vector>

#include "hub/model_directory.h"
#include "hub/store.h"

namespace anabranch::hub {

// All models of the store, sorted by name. The name of a snapshot that is not at revision "main" includes its
// revision or commit. A repository with only unfinished downloads is listed with a problem.
std::vector<StoredModel> list_store(const Store& store);

// The files that removing a model deletes.
struct Removal {
  std::vector<std::string> links;        // files of snapshots
  std::vector<std::string> blobs;        // not used by anything else; includes unfinished ones
  std::vector<std::string> directories;  // removed with their contents
  uint64_t bytes = 0;                    // bytes freed
};

// ORG/NAME means all snapshots of a repository, ORG/NAME@REVISION one of them; with :QUANT or /FILE, only
// these files of them. Error: not_found (with the nearest stored name).
Result<Removal> plan_removal(const Store& store, const ModelName& name, bool all_revisions);
// Error: io (everything that could be removed is gone).
Result<void> remove(const Removal& removal);

}  // namespace anabranch::hub
