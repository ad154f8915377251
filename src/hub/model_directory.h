// Models in a directory with a repository's files: a snapshot of the store, or LM Studio's ORG/NAME.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hub/model_files.h"

namespace anabranch::hub {

// A model on this machine.
struct StoredModel {
  std::string name;         // what --model takes
  std::string path;         // the directory or file to open
  std::string format;       // "GGUF Q4_K_M", "safetensors 4 bit", "safetensors bfloat16"
  uint64_t bytes = 0;       // a GGUF model's include its vision tower, even if other models share it
  int64_t modified_ns = 0;  // since 1970: time of its newest file
  std::string store;        // "hub", "Ollama" or "LM Studio"
  std::string commit;       // for models of the hub
  std::string problem;      // why it cannot be used; "": no problem is known
};

// Paths of the files below a directory, through links, sorted, at most 20,000.
std::vector<std::string> files_below(const std::string& directory);

// The path of the model if all of its files exist. Errors: see choose_files().
Result<std::string> find_in_directory(const std::string& directory, const ModelName& name, Purpose purpose);

// All GGUF models, and the safetensors model if there is one. name: repository and revision. The fields
// `store` and `commit` are left empty.
std::vector<StoredModel> models_in(const std::string& directory, const ModelName& name);

}  // namespace anabranch::hub
