// Removes what deleted conversations left in the cache: their cached states (full_name() of a record) in the
// memory of loaded models and on disk, and their sampled turns ("turn-" and a key of chat/turn_memory.h).
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/worker_pool.h"
#include "cache/shared_states.h"
#include "server/api/model_pool.h"
#include "server/api/session_stores.h"

namespace anabranch::server {

struct Traces {
  std::vector<DiskRecord> records;
  std::vector<uint64_t> turns;
};
// Sorts the names by kind; unknown ones are left out.
Traces parse_traces(std::span<const std::string> names);
// The trace of a sampled turn.
std::string turn_trace(uint64_t key);
// Removes, in this directory, the records of models that are not loaded here, and turns. Errors: io.
Result<void> erase_on_disk(const std::string& directory, const Traces& traces);

class TraceEraser {
 public:
  using Names = std::vector<std::string>;
  // directory: the directory of the prefix cache and of turns; empty: nothing is on disk. released: called on
  // the I/O thread with the names of the traces, before the `done` of erase(). models must outlive it.
  TraceEraser(
      ModelPool& models, std::shared_ptr<SessionStores> stores, Post post, std::string directory,
      std::function<void(const Names&)> released = [](const Names&) {})
      : models_(models),
        stores_(std::move(stores)),
        post_(std::move(post)),
        directory_(std::move(directory)),
        released_(std::move(released)) {}

  // Any thread may call it. Removes what the conversations deleted so far left in the cache, and then calls
  // `done` on the I/O thread. A failure is logged, and the next call tries again.
  void erase(std::function<void()> done = [] {});

 private:
  struct Models;
  void collect(std::function<void()> done);
  void take_and_erase(const Models& models);

  ModelPool& models_;
  const std::shared_ptr<SessionStores> stores_;
  const Post post_;
  const std::string directory_;
  const std::function<void(const Names&)> released_;
  WorkerPool workers_{{.name = "state eraser"}};  // one thread, so a call that finds the traces already taken
                                                  // runs after the call that took them
};

}  // namespace anabranch::server
