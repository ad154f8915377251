// Adapters on request: llama-server's GET and POST /lora-adapters, vLLM's POST /v1/load_lora_adapter and
// /v1/unload_lora_adapter.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/worker_pool.h"
#include "server/api/model_pool.h"
#include "server/api/routes.h"
#include "server/http/types.h"

namespace anabranch::server {

// Used on the I/O thread only.
class AdapterActions {
 public:
  // directories: those below which clients may load adapters; none: they may load none. The pool must outlive
  // it.
  AdapterActions(ModelPool& pool, Post post, int64_t created, std::vector<std::string> directories);
  ~AdapterActions();

  void start(AdapterAction action, const std::string& body, std::shared_ptr<ResponseStream> out);

 private:
  struct Load {
    std::string name, path;
    bool in_place = false;  // replaces an adapter of this name
    std::shared_ptr<ResponseStream> out;
  };

  HttpResponse list() const;
  ApiResult<Json> set_scales(const std::string& body);
  ApiResult<Json> unload(const Json& body);
  ApiResult<void> load(const Json& body, const std::shared_ptr<ResponseStream>& out);
  std::optional<ApiError> refusal(const Load& load) const;
  void run(Load load, const ModelLease& model);
  void finish(const Load& load, const std::string& model, ApiResult<ServedAdapter> loaded);

  ModelPool& pool_;
  const Post post_;
  const int64_t created_;
  const std::vector<std::string> directories_;
  std::set<std::string> loading_;  // names
  std::unique_ptr<WorkerPool> workers_;
};

}  // namespace anabranch::server
