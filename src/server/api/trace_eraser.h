// Removes what deleted conversations left in the cache: their states (full_name() of a record) in the memory
// of loaded models and on disk, and their sampled turns ("turn-" and a key of chat/turn_memory.h).
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
// Others are left out.
Traces parse_traces(std::span<const std::string> names);
// The trace of a sampled turn.
std::string turn_trace(uint64_t key);
// Removes what is on disk there of models that are not loaded here, and turns. Errors: io.
Result<void> erase_on_disk(const std::string& directory, const Traces& traces);

class TraceEraser {
 public:
  // directory: of states and turns; empty: none are on disk. models must outlive it.
  TraceEraser(ModelPool& models, std::shared_ptr<SessionStores> stores, Post post, std::string directory)
      : models_(models),
        stores_(std::move(stores)),
        post_(std::move(post)),
        directory_(std::move(directory)) {}

  // Any thread. Removes what conversations left that are gone by now, and then calls `done` on the I/O
  // thread. If that fails, it is logged, and the next call tries it again.
  void erase(std::function<void()> done = [] {});

 private:
  struct Models;
  void collect(std::function<void()> done);
  void take_and_erase(const Models& models);

  ModelPool& models_;
  const std::shared_ptr<SessionStores> stores_;
  const Post post_;
  const std::string directory_;
  WorkerPool workers_{
      {.name = "state eraser"}};  // one: whoever finds that others took the traces comes after them
};

}  // namespace anabranch::server
