// Mistral's own layout of a model: consolidated*.safetensors and params.json instead of Hugging Face's names
// and config.json.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/store.h"

namespace anabranch {

inline constexpr const char* kMistralParams = "params.json";

bool is_consolidated(std::string_view file_name);

// config.json of the text model that params.json (at `path`) describes. Errors: invalid (a wrong type),
// unsupported (settings that Hugging Face's Mistral models cannot express).
Result<Json> mistral_config(const Json& params, const std::string& path);

// Gives the tensors Hugging Face's names, and drops those for images. Returns how many were dropped.
size_t take_mistral_names(SafetensorsFile& file);

// Puts the rows of queries and keys into Hugging Face's order. `config` is mistral_config()'s.
// Error (invalid): rows that do not fit its heads.
Result<void> order_mistral_rows(const Json& config, std::vector<Entry>& entries);

}  // namespace anabranch
