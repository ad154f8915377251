// What the store holds, and removal of it.
#pragma once

#include <string>
#include <vector>

#include "hub/model_directory.h"
#include "hub/store.h"

namespace anabranch::hub {

// All models of the store, sorted by name. A snapshot that no revision "main" is at gets its revision or
// commit into its name. Repositories of which only unfinished downloads are there come with a problem.
std::vector<StoredModel> list_store(const Store& store);

// What removing a model takes away.
struct Removal {
  std::vector<std::string> links;        // files of snapshots
  std::vector<std::string> blobs;        // that nothing else refers to, unfinished ones included
  std::vector<std::string> directories;  // removed with all that they hold
  uint64_t bytes = 0;                    // that get free
};

// ORG/NAME means all snapshots of a repository, ORG/NAME@REVISION one; with :QUANT or /FILE, only these files
// of them. Error: not_found (with the nearest stored name).
Result<Removal> plan_removal(const Store& store, const ModelName& name, bool all_revisions);
// Error: io (what could be removed is gone).
Result<void> remove(const Removal& removal);

}  // namespace anabranch::hub
