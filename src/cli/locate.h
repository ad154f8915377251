// Finds the model that --model and similar flags name: a path, or a model on the hub, which is pulled if it
// is not stored yet.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "hub/model_directory.h"
#include "hub/model_files.h"

namespace anabranch::cli {

enum class IfMissing { pull, refuse };

// The path to open. An existing path always wins over a name; then come the hub's store, LM Studio's models,
// and the hub itself. "ollama:NAME" is a model of Ollama. Progress of a download goes to stderr. Errors:
// not_found, and those of hub::pull().
Result<std::string> locate_model(const std::string& path_or_name, hub::Purpose purpose = hub::Purpose::model,
                                 IfMissing missing = IfMissing::pull);

// The path of the stored model of this name, without using the network. Errors: not_found.
Result<std::string> locate_stored(const std::string& name);

// All models in this machine's stores: Hugging Face's, Ollama's and LM Studio's.
Result<std::vector<hub::StoredModel>> stored_models();

// The small model that comes with a clone of the repository, if this is the clone's folder.
std::optional<hub::StoredModel> model_of_clone();

// Forbids locate_model() and `pull` to use the network, as HF_HUB_OFFLINE does.
void go_offline();

}  // namespace anabranch::cli
