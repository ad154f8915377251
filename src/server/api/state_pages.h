// Gives kept states to other workers: POST /v1/states/lookup and GET /v1/states/{fingerprint}/{record}
// (docs/state-transfer.md).
//
// I/O thread only; records are put together on threads of its own.
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
  // shared: otherwise all requests are refused. models must outlive it.
  StatePages(ModelPool& models, Post post, bool shared)
      : models_(models), post_(std::move(post)), shared_(shared) {}

  bool shared() const { return shared_; }
  void lookup(const std::string& body, std::shared_ptr<ResponseStream> out);
  void record(const std::string& fingerprint, const std::string& name, std::shared_ptr<ResponseStream> out);

 private:
  // Answers with an error unless the model whose states have this fingerprint is loaded.
  void with_model(const std::string& fingerprint, const std::shared_ptr<ResponseStream>& out,
                  std::function<void(ModelLease)> use);

  ModelPool& models_;
  const Post post_;
  const bool shared_;
  std::shared_ptr<std::atomic<int>> under_way_ = std::make_shared<std::atomic<int>>(0);  // records
  WorkerPool workers_{{.name = "state sender", .threads = 2}};
};

// For the answer to a request that another worker goes on with: where this worker's states are. host: as the
// request names this worker.
Json transfer_json(const Engine& engine, const std::string& salt,
                   const std::vector<std::vector<int>>& prompts, const std::string& host);

}  // namespace anabranch::server
