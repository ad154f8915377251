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
Result<ModelSpec> read_qwen4_exp_config(const Json& config, const std::string& file);
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

// A model around a text model, such as one with a tower, of which the text model is run.
struct OuterType {
  const char* model_type;
  const char*
      text_type;      // what a text_config without "model_type" is, or the config itself without text_config
  bool tied = false;  // the default of "tie_word_embeddings"
  const char* other_name = nullptr;  // of text_type
  bool always = false;               // text_type, whatever a text_config states
};
const OuterType* find_outer_type(const std::string& model_type);
// All of them, each followed by ", ".
std::string outer_type_names();
// The type of a config's text model: its "model_type", unless it is an outer type. MiniMax M2 has
// MiniMax-01's type in published files.
std::string text_type_of(const Json& config);

// Adds the sizes that the text_config of a model with a tower leaves out, because they are the defaults of
// Transformers' class.
void add_usual_sizes(const std::string& text_type, Json& text);

// Remembers an error if the activation is anything but silu (also called swish).
void require_silu(ConfigReader& config, const char* key = "hidden_act");

// What an MLP without a gate applies to up(x), by the name under `key`; xielu is only for families that may
// have it.
void read_ungated_activation(ConfigReader& config, const char* key, const char* fallback, bool xielu,
                             MlpSpec& mlp);
// xIELU with the parameters that files have.
ops::Xielu xielu_of(float alpha_p, float alpha_n, float beta, float eps);

// The default where the key is absent; `none` where it is null.
int integer_of(ConfigReader& config, const char* key, int low, int high, int fallback, int none);

// How a family's config describes its mixtures of experts: keys, and what absent ones mean. A key that is
// null does not exist.
struct MoeKeys {
  // "num_local_experts" and "num_experts" are read in place of `experts`, if that is absent or null, and
  // "num_experts_per_tok" in place of `top_k`, which may also be a list with a number for each layer.
  const char *experts = nullptr, *top_k = "num_experts_per_tok", *intermediate = "moe_intermediate_size";
  // The shared expert's width, or how many experts it is as wide as.
  const char *shared_width = nullptr, *shared_count = nullptr;
  int default_shared = 0;  // for either key
  bool shared_gate = false, choice_bias = false;
  bool clamped = false;          // router and experts have biases, and the experts are a ClampedGlu
  ops::RouterSpec routing = {};  // what no key changes
  const char *normalise = nullptr, *scale = nullptr, *least_sum = nullptr, *tolerance = nullptr;
  // "softmax" of the chosen scores, always normalised, or "sigmoid"; what the shared expert's output and the
  // routed ones' have: "average" or "sum".
  const char *scores = nullptr, *combination = nullptr;
  bool groups = false;  // "n_group" and "topk_group" are read; routing has their defaults
  // Which layers are mixtures. stepped: every "decoder_sparse_step"-th, except those in "mlp_only_layers".
  // after_dense: those after as many as dense_key says, or default_dense if there is no such key. listed:
  // those that are "sparse" in "mlp_layer_types", and without that key as after_dense. between: every
  // "moe_layer_interval"-th from "moe_layer_start_index" to "moe_layer_end_index".
  enum class Layers { all, stepped, after_dense, listed, between } layers = Layers::all;
  const char* dense_key = "first_k_dense_replace";
  int default_dense = 0;
};
// GLM-4.5's, which are DeepSeek V3's except for defaults.
constexpr MoeKeys kGlmMoe{.experts = "n_routed_experts",
                          .shared_count = "n_shared_experts",
                          .default_shared = 1,
                          .choice_bias = true,
                          .routing = {.scores = ops::RouterSpec::Scores::sigmoid, .added_sum = 1e-20f},
                          .normalise = "norm_topk_prob",
                          .scale = "routed_scaling_factor",
                          .groups = true,
                          .layers = MoeKeys::Layers::after_dense,
                          .default_dense = 1};

// The key that holds the number of experts: "num_experts"; or "num_local_experts" in Mixtral's configs, and
// in configs of other models saved by newer versions of Transformers.
const char* experts_key(const ConfigReader& config);
// Reads the sizes and the routing of a layer's mixture of experts.
MoeSpec read_moe(ConfigReader& config, const MoeKeys& keys, int layer = 0);
// Sets whether q, k and v (qkv), and o (out), have biases, as the family's config implies; the tensors of a
// GGUF file override both (checkpoint/gguf_config.cc).
void read_biases(ConfigReader& config, bool qkv, bool out, AttentionSpec& attention);
// The sizes of latent attention where a config does not state them. value_dim 0: the hidden size divided by
// the heads.
struct LatentDefaults {
  int query_rank, rank, plain_dim, turned_dim, value_dim;
};
// Latent attention whose scores have the usual scale.
LatentAttentionSpec read_latent_attention(ConfigReader& config, const LatentDefaults& defaults, int hidden);
// An error if an odd number of dimensions turns.
void require_pairs(ConfigReader& config, const LatentAttentionSpec& attention);
// The scale of the scores, which a scaled rope's "mscale_all_dim" changes.
float scale_of_scores(const Json& rope_parameters, float scale);
// Which of `layers` layers are mixtures.
std::vector<int> sparse_layers(ConfigReader& config, const MoeKeys& keys, int layers);

}  // namespace anabranch
