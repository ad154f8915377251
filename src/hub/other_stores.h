// Models that other programs have downloaded: Ollama's and LM Studio's. They are used in place and never
// changed.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hub/model_directory.h"

namespace anabranch::hub {

// "ollama:NAME" or "ollama:NAME:TAG", as `ollama list` shows them.
bool is_ollama_name(std::string_view text);

// The existing model directories of Ollama and of LM Studio.
std::vector<std::string> ollama_directories();
std::vector<std::string> lm_studio_directories();

// The path of a GGUF model: a link below `links` that ends in .gguf, since Ollama names its files by hash.
// Errors: not_found (with the nearest name), unsupported (the model is not a GGUF file), io.
Result<std::string> find_ollama_model(const std::vector<std::string>& directories, std::string_view name,
                                      const std::string& links);
// LM Studio also stores models under ORG/NAME. Error: not_found.
Result<std::string> find_lm_studio_model(const std::vector<std::string>& directories, const ModelName& name,
                                         Purpose purpose);

// Sorted by name.
std::vector<StoredModel> list_ollama(const std::vector<std::string>& directories);
std::vector<StoredModel> list_lm_studio(const std::vector<std::string>& directories);

}  // namespace anabranch::hub
