// Parses the families' configs into a ModelSpec, with helpers that the parsers share. Does not touch weights.
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
Result<ModelSpec> read_hybrid_config(const Json& config, const std::string& file);
// Whether the type is one of the hybrids of hybrid_config.cc.
bool is_hybrid_member(const std::string& model_type);
// Their types, each followed by ", ".
std::string hybrid_names();
Result<ModelSpec> read_latent_config(const Json& config, const std::string& file);
// Whether the type is one of latent_config.cc.
bool is_latent_member(const std::string& model_type);
// Their types, each followed by ", ".
std::string latent_names();
// Whether the type is a member of the Llama family (llama_config.cc).
bool is_llama_member(const std::string& model_type);
// All of them, each followed by ", ".
std::string llama_member_names();

// Remembers an error if "hidden_act" is anything but silu (also called swish).
void require_silu(ConfigReader& config);

// The default where the key is absent; `none` where it is null.
int integer_of(ConfigReader& config, const char* key, int low, int high, int fallback, int none);

// The key that holds the number of experts: "num_experts"; or "num_local_experts" in Mixtral's configs, and
// in configs of other models saved by newer versions of Transformers.
const char* experts_key(const ConfigReader& config);
// Reads the sizes and the routing of a mixture of experts.
MoeSpec read_moe(ConfigReader& config, const char* intermediate_key);
// Sets whether q, k and v (qkv), and o (out), have biases, as the family's config implies; the tensors of a
// GGUF file override both (checkpoint/gguf_config.cc).
void read_biases(ConfigReader& config, bool qkv, bool out, AttentionSpec& attention);
// The sizes of latent attention where a config does not state them. value_dim 0: the hidden size divided by the
// heads.
struct LatentDefaults {
  int query_rank, rank, plain_dim, turned_dim, value_dim;
};
// Latent attention whose scores have the usual scale.
LatentAttentionSpec read_latent_attention(ConfigReader& config, const LatentDefaults& defaults, int hidden);
// Which of `layers` layers are mixtures: every "decoder_sparse_step"-th, except those in "mlp_only_layers".
std::vector<int> sparse_layers(ConfigReader& config, int layers);

}  // namespace anabranch
