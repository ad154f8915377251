// Sends cached states to other workers: POST /v1/states/lookup and GET /v1/states/{fingerprint}/{record}
// (docs/state-transfer.md).
//
// I/O thread only; its own threads assemble the records.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "base/worker_pool.h"
#include "server/api/model_pool.h"
#include "server/http/types.h"

namespace anabranch::server {

class StatePages {
 public:
  // shared: if false, all requests are refused. models must outlive it.
  StatePages(ModelPool& models, Post post, bool shared)
      : models_(models), post_(std::move(post)), shared_(shared) {}

  bool shared() const { return shared_; }
  void lookup(const std::string& body, std::shared_ptr<ResponseStream> out);
  void record(const std::string& fingerprint, const std::string& name, std::shared_ptr<ResponseStream> out);

 private:
  // Calls `use` with the loaded model whose states have this fingerprint, or answers with an error.
  void with_model(const std::string& fingerprint, const std::shared_ptr<ResponseStream>& out,
                  std::function<void(ModelLease)> use);

  ModelPool& models_;
  const Post post_;
  const bool shared_;
  std::shared_ptr<std::atomic<int>> under_way_ = std::make_shared<std::atomic<int>>(0);  // records
  WorkerPool workers_{{.name = "state sender", .threads = 2}};
};

// For the answer to a request that another worker will continue: where that worker can fetch this one's
// cached states. host: this worker's host as the request names it.
Json transfer_json(const Engine& engine, const std::string& salt,
                   const std::vector<std::vector<int>>& prompts, const std::string& host);

}  // namespace anabranch::server
