// GET /v1/models and GET /v1/models/{id}: the models of this machine, and their adapters.
#pragma once

#include <memory>
#include <string>

#include "base/json.h"
#include "base/worker_pool.h"
#include "server/api/model_pool.h"
#include "server/http/types.h"

namespace anabranch::server {

// A model or an adapter of this name, as clients see it. An adapter has vLLM's "parent" (its model) and
// "root" (its path). anthropic: in the format of Anthropic's API. created: see model_json.
Json listed_json(const ModelPool& pool, const std::string& name, bool anthropic, int64_t created);

// Used on the I/O thread. All arguments outlive it.
class ModelPages {
 public:
  ModelPages(const ModelPool& pool, WorkerPool& workers, const Post& post, int64_t created)
      : pool_(pool), workers_(workers), post_(post), created_(created) {}

  // Loaded models first, then the others on this machine; each is followed by its adapters.
  void list(bool anthropic, std::shared_ptr<ResponseStream> out) const;
  HttpResponse one(const std::string& id, bool anthropic) const;

 private:
  const ModelPool& pool_;
  WorkerPool& workers_;
  const Post& post_;
  const int64_t created_;
};

}  // namespace anabranch::server
