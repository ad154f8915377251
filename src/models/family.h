// What a family file provides, and the helpers they share for taking tensors.
#pragma once

#include <string>

#include "models/config.h"
#include "models/model.h"

namespace anabranch {

// A family: reads its config, then builds one decoder layer at a time from tensors named "<prefix>...", and,
// if it knows one (else null), the MTP head from tensors "mtp...".
struct Family {
  Result<ModelSpec> (*read_config)(const Json& config, const std::string& file);
  Result<nn::DecoderLayer> (*build_layer)(Checkpoint& checkpoint, const ModelSpec& spec,
                                          const std::string& prefix, const LayerSpec& layer);
  Result<nn::Mtp> (*build_mtp)(Checkpoint& checkpoint, const ModelSpec& spec) = nullptr;
};

const Family& llama_family();    // llama, mistral, qwen2, qwen3 (llama.cc)
const Family& qwen3_5_family();  // qwen3_5, qwen3_5_text (qwen3_5.cc)

// A projection "<name>.weight" [out, in], with "<name>.bias" when `bias`.
Result<nn::Linear> take_linear(Checkpoint& checkpoint, const std::string& name, int out, int in,
                               bool bias = false);
// A norm's multiplier "<name>.weight" [size]. `offset_family`: the family applies (1 + w), so 1 is added to
// files that store w (Checkpoint's NormConvention).
Result<nn::RmsNorm> take_norm(Checkpoint& checkpoint, const std::string& name, int size, float eps,
                              bool offset_family);
// Attention's projections under `prefix` (q_proj, k_proj, v_proj, o_proj, q_norm, k_norm). With an output
// gate, q_proj holds [query | gate] per head.
Result<nn::Attention> take_attention(Checkpoint& checkpoint, const std::string& prefix, const ModelSpec& spec,
                                     const AttentionSpec& attention, bool offset_family);
Result<nn::Mlp> take_mlp(Checkpoint& checkpoint, const std::string& prefix, const ModelSpec& spec);

// Rotary frequencies from "rope_parameters" or "rope_scaling" + "rope_theta": plain, linear and llama3
// scaling. rotated_dims is how many of a head's dimensions turn.
RopeSpec read_rope(ConfigReader& config, int rotated_dims, double default_theta);

}  // namespace anabranch
