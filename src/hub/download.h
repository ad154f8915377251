// Downloads files from the hub into the store: several at a time, large ones in ranges, with retries.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "hub/api.h"
#include "hub/store.h"

namespace anabranch::hub {

// Files of one repository at one commit.
struct DownloadPlan {
  ModelName name;
  std::string commit;
  std::vector<RepoFile> files;
};

// Downloads all missing blobs. After an error or an interruption the bytes remain in files whose names end in
// .incomplete, and the next download continues from them. progress: bytes so far, of all files together.
Result<void> download(const Settings& settings, Api& api, const Store& store, const DownloadPlan& plan,
                      const Watcher& watcher, const std::function<void(uint64_t done)>& progress);

}  // namespace anabranch::hub
