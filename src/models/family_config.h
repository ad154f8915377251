// The families' configs, read into a ModelSpec, and what the readers share. They touch no weights.
#pragma once

#include <string>
#include <vector>

#include "models/config.h"
#include "models/model_spec.h"

namespace anabranch {

// Each reads config.json as a whole; `file` is named in errors.
Result<ModelSpec> read_llama_config(const Json& config, const std::string& file);
Result<ModelSpec> read_qwen3_5_config(const Json& config, const std::string& file);
Result<ModelSpec> read_gemma_config(const Json& config, const std::string& file);
// Whether the type is one of the Llama family's members (llama_config.cc).
bool is_llama_member(const std::string& model_type);

// Remembers an error if "hidden_act" is anything but silu, which also has the name swish.
void require_silu(ConfigReader& config);

// The key that holds the number of experts: "num_experts" or, in Mixtral's configs and in what newer versions
// of Transformers save for others, "num_local_experts".
const char* experts_key(const ConfigReader& config);
// Reads the sizes and the routing of a mixture of experts.
MoeSpec read_moe(ConfigReader& config, const char* intermediate_key);
// Whether q, k and v, and o, have biases where the family's config does not say it in other words: "qkv" and
// "out". A GGUF file says it of each by what it holds (checkpoint/gguf_config.cc).
void read_biases(ConfigReader& config, bool qkv, bool out, AttentionSpec& attention);
// Which of `layers` layers are mixtures: every "decoder_sparse_step"-th, without "mlp_only_layers".
std::vector<int> sparse_layers(ConfigReader& config, int layers);

}  // namespace anabranch
