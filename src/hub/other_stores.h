// Models that other programs have downloaded: Ollama's and LM Studio's. They are used where they are, and
// never changed.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hub/model_directory.h"

namespace anabranch::hub {

// "ollama:NAME" or "ollama:NAME:TAG", as `ollama list` shows them.
bool is_ollama_name(std::string_view text);

// Ollama's directories of models, and LM Studio's: those that exist.
std::vector<std::string> ollama_directories();
std::vector<std::string> lm_studio_directories();

// A path that ends in .gguf and leads to the model's file: a link below `links`, since Ollama names its files
// by hash. Errors: not_found (with the nearest name), unsupported (the model is no GGUF file), io.
Result<std::string> find_ollama_model(const std::vector<std::string>& directories, std::string_view name,
                                      const std::string& links);
// LM Studio keeps models under ORG/NAME as well. Error: not_found.
Result<std::string> find_lm_studio_model(const std::vector<std::string>& directories, const ModelName& name,
                                         Purpose purpose);

// Sorted by name.
std::vector<StoredModel> list_ollama(const std::vector<std::string>& directories);
std::vector<StoredModel> list_lm_studio(const std::vector<std::string>& directories);

}  // namespace anabranch::hub
