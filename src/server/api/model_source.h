// Where a server's models come from. `cli/` makes one from the command line, the configuration and the stores
// of models; tests make their own.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "chat/thinking.h"
#include "engine/engine.h"
#include "server/api/adapter_registry.h"
#include "server/api/image_fetch.h"

namespace anabranch::server {

// How long a model stays loaded.
struct KeepLoaded {
  bool pinned = false;        // it is never unloaded to make room or for being idle
  double unload_after_s = 0;  // unloaded after this time without a request; 0: never
};

// The size of a model, known before it is loaded, and how long to keep it loaded.
struct ModelSize {
  uint64_t bytes = 0;  // of weights, the draft model's included
  KeepLoaded keep;
};

// The description of a model for clients, from its files.
struct ModelDescription {
  std::string family;  // see ModelInfo
  std::string format;  // "gguf" or "safetensors"
  uint64_t parameters = 0, bytes = 0;
  int context_length = 0;  // that of answers, as far as it is known before the model is loaded
  int layers = 0, hidden = 0;
  int64_t modified_ns = 0;    // since 1970
  std::string chat_template;  // its source; empty: none
  bool images = false;        // see ModelInfo
  // Whether it makes embeddings, and whether its files say that it is made for nothing else.
  bool embeddings = false, embeddings_only = false;
};

// A loaded model, and the defaults for its requests.
struct ReadyModel {
  std::shared_ptr<Engine> engine;
  SamplingParams sampling;
  ThinkingWish thinking;
  std::vector<ServedAdapter> adapters = {};  // of ServerModels::first; the pool loads those of other models
};

struct PullState {
  uint64_t done = 0, total = 0;  // bytes
  size_t files = 0;
};
struct PulledModel {
  std::string name;
  uint64_t bytes = 0, downloaded = 0;
};

struct ModelSource {
  // The name of the model on this machine that `wanted` means; nothing: no such model. Called on the I/O
  // thread, so it must be fast.
  std::function<std::optional<std::string>(const std::string& wanted)> find;
  // The names of all models, sorted. Reads directories, so it runs on a worker.
  std::function<std::vector<std::string>()> list;
  // The functions below run on threads that may block. Errors of all but pull: whatever prevents loading.
  std::function<Result<ModelSize>(const std::string& name)> measure;
  std::function<Result<ModelDescription>(const std::string& name)> describe;
  std::function<Result<ReadyModel>(const std::string& name)> load;  // without adapters
  std::function<Result<PulledModel>(const std::string& name, const std::function<bool()>& cancelled,
                                    const std::function<void(const PullState&)>& progress)>
      pull;
};

// A source without models.
ModelSource no_models();

// The models of a server, and their limits.
struct ServerModels {
  std::optional<ReadyModel> first;  // the model for requests that name none
  KeepLoaded first_keep;
  ModelSource source = no_models();
  uint64_t weight_bytes = 0;  // limit for all loaded models together; 0: no limit
  WebFetch fetch_image;       // gets images that requests name by a web address; empty: they are refused
  bool strict_names = false;  // an unknown name is an error; otherwise it means the first model
  // The adapters that are loaded together with a model, by its name. Those of `first` are in it already.
  std::map<std::string, std::vector<NamedAdapter>> adapters = {};
};

}  // namespace anabranch::server
