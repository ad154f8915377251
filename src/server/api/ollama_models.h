// Ollama's routes about models: /api/tags, /api/ps and /api/show. Reference: Ollama's docs/api.md.
#pragma once

#include <memory>
#include <string>

#include "base/worker_pool.h"
#include "server/api/model_pool.h"
#include "server/http/types.h"

namespace anabranch::server {

// The version of Ollama's API that the routes below /api follow; clients compare it.
inline constexpr const char* kOllamaVersion = "0.13.0";

// Used on the I/O thread. All arguments outlive it.
class OllamaModels {
 public:
  OllamaModels(const ModelPool& pool, WorkerPool& workers, const Post& post)
      : pool_(pool), workers_(workers), post_(post) {}

  // Lists all models on this machine, from their files.
  void list(std::shared_ptr<ResponseStream> out) const;
  // body: {"model": NAME}
  void show(const std::string& body, std::shared_ptr<ResponseStream> out) const;
  // Lists the loaded models.
  HttpResponse loaded() const;

 private:
  const ModelPool& pool_;
  WorkerPool& workers_;
  const Post& post_;
};

}  // namespace anabranch::server
