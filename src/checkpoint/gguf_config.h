// GGUF metadata in the terms of Hugging Face's config.json.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "checkpoint/gguf.h"
#include "checkpoint/gguf_metadata.h"

namespace anabranch {

// Architectures whose tensors have different names or orders.
enum class GgufArch {
  llama,
  qwen2,
  qwen3,
  seed_oss,
  phi3,
  post_norm,
  glm4,
  starcoder2,
  hunyuan,
  lfm2,
  granite_h,
  nemotron_h,
  falcon_h1,
  deepseek2,
  apertus,
  afmoe,
  phi2,
  gptneox,
  qwen35,
  qwen3next,
  gemma2,
  gemma3,
  gemma4
};

constexpr bool is_gemma(GgufArch arch) {
  return arch >= GgufArch::gemma2;
}
constexpr bool is_hybrid(GgufArch arch) {
  return arch == GgufArch::qwen35 || arch == GgufArch::qwen3next;
}
constexpr bool has_mamba(GgufArch arch) {
  return arch == GgufArch::granite_h || arch == GgufArch::nemotron_h || arch == GgufArch::falcon_h1;
}
// Whether llama.cpp's converter writes the rows of queries and keys as pairs that turn, not as halves.
constexpr bool turns_rows(GgufArch arch) {
  return arch == GgufArch::llama || arch == GgufArch::granite_h || arch == GgufArch::nemotron_h;
}

struct GgufConfig {
  GgufArch arch = GgufArch::llama;
  int64_t layers = 0;  // without those of the MTP module
  int64_t heads = 0, kv_heads = 0;
  int64_t experts = 0;  // 0: not a mixture
  // The recurrent layers of qwen35 and qwen3next; those with Mamba2 have linear_value_heads.
  int64_t linear_key_heads = 0, linear_value_heads = 0, linear_key_dim = 0, linear_value_dim = 0;
  // The order is (j, key head), not (key head, j); j counts the value heads of a key head.
  bool value_heads_by_turns = false;
  Json config;
};

// The keys under which config.json has what the metadata says of experts, for families that name them
// differently from Qwen3-MoE. A key that is null does not exist.
struct GgufMoe {
  const char *experts = "num_experts", *top_k = "num_experts_per_tok", *width = "moe_intermediate_size";
  const char *shared_width = nullptr, *shared_count = nullptr;
  const char *dense = nullptr, *step = nullptr;  // leading dense layers; every so-manyth layer is a mixture
  bool sigmoid = false;                          // the scores are sigmoids
  bool deep = false;                             // there are groups and a scale
  const char* scale = "routed_scaling_factor";
  bool listed = false;  // the layers with a router are mixtures ("mlp_layer_types")
};

// What a member of the Llama family (models/llama_members.h) has in its metadata besides the usual keys.
struct GgufMember {
  const char* layer_norm_eps =
      nullptr;            // config.json's key for the epsilon of its LayerNorms; null: RMSNorms
  bool windows = false;   // layers may have windows: all of them, or if there is a period
  int period = 0;         // all but every period-th, unless a list says which
  bool partial = false;   // a part of each head turns
  bool use_bias = false;  // config.json says in "use_bias" whether the MLP has biases
  bool multipliers = false, logit_scale = false;  // factors of Granite, of Cohere 2
  bool needs_multipliers = false;                 // older files leave factors out that are not 1 (MiniCPM)
  bool ungated = false;                           // the MLP is ffn_down(gelu(ffn_up(x)))
  bool normalises = true;                         // the weights of chosen experts add up to 1
  const GgufMoe* moe = nullptr;
  bool yarn = false;                 // its yarn has no truncated bounds (gpt-oss)
  const char* activation = nullptr;  // of the MLP, if it is not silu or that of `ungated`
  // GPT-NeoX's keys for the rope and for parts side by side; the factors of xIELU (Apertus).
  bool neox_keys = false, xielu = false;
  bool by_kind = false;           // layers with windows have a rope of their own ("rope_parameters")
  bool scaled_embedding = false;  // always (AFMoE)
  bool full_first = false;        // the first one of each period has no window
  bool gated = false;             // there is a gate of the attention's output, whose size says of what
  bool own_heads = false;         // the number of heads differs by layer
};

// The tensors with the divisors of a rope's frequencies. Their values become part of the config.
constexpr const char *kRopeFactors = "rope_freqs.weight", *kNearRopeFactors = "rope_factors_short.weight",
                     *kFarRopeFactors = "rope_factors_long.weight";

// The architecture that the metadata names. Errors: invalid (it names none), unsupported (we cannot read it).
Result<GgufArch> read_gguf_arch(const GgufFile& file, const std::string& path);

// Errors: invalid (a key is missing or makes no sense), unsupported (an architecture that we cannot read).
Result<GgufConfig> read_gguf_config(const GgufFile& file, const std::string& path);

// The sizes of latent attention (gguf_latent.cc), before the rope is read; then what its rope's scaling
// means, and its mixtures.
Result<void> add_gguf_latent(const GgufMetadata& metadata, GgufConfig& out);
Result<void> finish_gguf_latent(const GgufMetadata& metadata, GgufConfig& out);

// The layers of Granite 4.0-H and Nemotron-H (gguf_mamba.cc). recurrent: those without key heads, of all
// `blocks` that the file has; empty if there are none.
Result<void> add_gguf_mamba(const GgufMetadata& metadata, int64_t blocks, const std::vector<bool>& recurrent,
                            GgufConfig& out);

// Parts of read_gguf_config(): the rope of every architecture except gemma4 (gguf_rope.cc), and the settings
// that only members of the Llama family, or some with experts (gguf_member.cc), or Gemma (gguf_gemma.cc)
// have.
Result<void> add_gguf_rope(const GgufMetadata& metadata, GgufConfig& out);
Result<void> add_gguf_member(const GgufMetadata& metadata, const GgufMember& member, GgufConfig& out);
Result<void> add_gguf_experts(const GgufMetadata& metadata, const GgufMoe& moe, bool normalises,
                              GgufConfig& out);
Result<void> add_gguf_gemma(const GgufMetadata& metadata, GgufConfig& out);

}  // namespace anabranch
