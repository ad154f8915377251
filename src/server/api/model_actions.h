// Loads, unloads and pulls models when a client asks for it: POST /v1/models/{load,unload,pull}.
#pragma once

#include <memory>
#include <unordered_map>

#include "base/json.h"
#include "server/api/model_pool.h"
#include "server/api/routes.h"
#include "server/http/types.h"

namespace anabranch::server {

// A model as clients see it: OpenAI's fields and its state.
// entry: null if it was never named.
Json model_json(const std::string& name, const ModelPool::Entry* entry, int64_t created);

// Used on the I/O thread only.
class ModelActions {
 public:
  // The pool must outlive it. created: see model_json.
  ModelActions(ModelPool& pool, Post post, int64_t created);
  ~ModelActions();

  void start(ModelAction action, const HttpRequest& request, std::shared_ptr<ResponseStream> out);
  // Ends downloads under way.
  void cancel_all();

 private:
  // A download. The worker uses only `cancelled`.
  struct Pull {
    std::shared_ptr<ResponseStream> out;
    bool streams = true, ollama = false;  // in Ollama's format
    std::shared_ptr<std::atomic<bool>> cancelled = std::make_shared<std::atomic<bool>>(false);
  };

  void load(const Json& body, std::shared_ptr<ResponseStream> out);
  void unload(const std::string& name, std::shared_ptr<ResponseStream> out);
  void pull(const Json& body, const std::string& name, bool ollama, std::shared_ptr<ResponseStream> out);
  void fail(const Pull& pull, const ApiError& error) const;
  void run_pull(uint64_t key, const std::string& name);
  void progress(uint64_t key, const PullState& state);
  void finish(uint64_t key, const Result<PulledModel>& result);

  ModelPool& pool_;
  const Post post_;
  const int64_t created_;
  uint64_t next_key_ = 1;
  std::unordered_map<uint64_t, Pull> pulls_;
  std::unique_ptr<WorkerPool> workers_;  // its jobs download
};

}  // namespace anabranch::server
