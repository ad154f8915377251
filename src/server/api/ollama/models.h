// Ollama's routes about models: /api/tags, /api/ps and /api/show. Reference: Ollama's docs/api.md.
#pragma once

#include <memory>
#include <string>

#include "base/worker_pool.h"
#include "server/api/model_pool.h"
#include "server/http/types.h"

namespace anabranch::server {

// The version of Ollama's API that the routes below /api follow. Clients ask for a minimum: Codex for 0.13.4,
// those that use the Messages API for 0.14.0.
inline constexpr const char* kOllamaVersion = "0.14.0";

// The name of a model as Ollama's routes list it, with a tag: clients make NAME:latest of NAME before they
// look for it.
std::string ollama_name(const std::string& name);

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
