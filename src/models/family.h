// The interface of a family file, and the helpers that families share for taking tensors.
#pragma once

#include <string>

#include "models/family_config.h"
#include "models/model.h"

namespace anabranch {

// Granularity at which devices may split a layer: packed rows have tiles of 64 inputs, which stay whole
// (ops/cuda/linear.h), and so do 16 columns of the residual stream.
constexpr int kSharedTile = 64, kSharedColumns = 16;

constexpr const char *kEmbeddingMatrix = "model.embed_tokens.weight", *kHeadMatrix = "lm_head.weight",
                     *kHeadBias = "lm_head.bias";

// The context of loading a model: its files, its description, and the device that receives the weights.
struct ModelBuilder {
  Checkpoint& checkpoint;
  const ModelSpec& spec;
  Device& device;
  // The matrices are for drafts only. Dense ones are rounded to 8 bits where that is faster: the acceptance
  // rate stays the same, and a draft costs a third less.
  bool for_drafts = false;
  // The device's end of the group among whose devices layers are split; null: layers are not split.
  ops::Collective* group = nullptr;
  // Whether some matrices get a second copy, split by inputs, for few rows. The first copy, for many rows, is
  // split by outputs.
  bool keeps_own_inputs = false;

  // The split of `units` units of `size` rows among the devices, and this device's part of it.
  ops::Split split(int units, int size) const {
    return ops::split_units(units, size, group ? group->ranks() : 1);
  }
  int rank() const { return group ? group->rank() : 0; }

  // Take matrices from the checkpoint: see Checkpoint.
  Result<WeightSource> take_matrix(const std::string& name, int64_t rows, int64_t cols) const;
  Result<WeightSource> take_matrices(const std::string& name, int64_t count, int64_t rows,
                                     int64_t cols) const;
};

// A family: reads its config, then builds one decoder layer at a time from tensors named "<prefix>...", and
// the MTP head from tensors "mtp..." (null if the family has none).
struct Family {
  Result<ModelSpec> (*read_config)(const Json& config, const std::string& file);
  Result<nn::DecoderLayer> (*build_layer)(const ModelBuilder& builder, const std::string& prefix,
                                          const LayerSpec& layer);
  Result<nn::Mtp> (*build_mtp)(const ModelBuilder& builder) = nullptr;
  // Only for specs with a per_layer_width.
  Result<nn::PerLayerInputs> (*build_per_layer_inputs)(const ModelBuilder& builder) = nullptr;
};

// The family that config.json's model_type names. Errors: invalid (no model_type), unsupported.
Result<const Family*> find_family(const Checkpoint& checkpoint);
// A member of the Llama family (llama.cc); null for other types.
const Family* find_llama_family(const std::string& model_type);
const Family& qwen3_5_family();  // qwen3_5, qwen3_5_text (qwen3_5.cc)
const Family& gemma_family();    // gemma2, gemma3, gemma4, vaultgemma (gemma.cc)
// A member of the hybrids (hybrid.cc); null for other types.
const Family* find_hybrid_family(const std::string& model_type);
const Family& qwen4_exp_family();  // qwen4_exp, qwen4_exp_text (qwen4_exp.cc)
// A family with latent attention (latent.cc); null for other types.
const Family* find_latent_family(const std::string& model_type);

// A linear layer of a module's matrix, or of some of its rows, in this order.
nn::Linear linear_of(const ModelBuilder& builder, const std::string& module, const WeightSource& source,
                     std::vector<int64_t> rows = {});
// A projection "<name>.weight" [out, in], with "<name>.bias" when `bias`.
Result<nn::Linear> take_linear(const ModelBuilder& builder, const std::string& name, int out, int in,
                               bool bias = false);
// Only the given rows of the projection, and of its bias.
Result<nn::Linear> take_rows_of_linear(const ModelBuilder& builder, const std::string& name, int out, int in,
                                       const std::vector<int64_t>& rows, bool bias = false);
// A projection back to the residual stream, [hidden, inputs.all()]. A device of a group takes its share of
// the outputs. inputs: how its input is split.
Result<nn::Linear> take_last_linear(const ModelBuilder& builder, const std::string& name, ops::Split inputs,
                                    bool bias = false);
// Multiplies the linear's input and its output, with the bias, by factors.
void scale_linear(nn::Linear& linear, float input, float output);
// A vector in the host's memory.
Tensor filled(int size, float value);
// Appends begin, ..., end - 1 to `rows`.
void append_rows(std::vector<int64_t>& rows, int64_t begin, int64_t end);
// The elements `rows` of a vector, on the builder's device.
Tensor take_elements(const ModelBuilder& builder, const Tensor& values, const std::vector<int64_t>& rows);
// A convolution "<name>.weight" of `channels` channels -> taps [kernel, channels], in the host's memory.
Result<Tensor> take_conv(Checkpoint& checkpoint, const std::string& name, int channels, int kernel);
// Columns of taps [k, C].
Tensor take_channels(const Tensor& taps, const std::vector<int64_t>& channels);
// A norm's multiplier "<name>.weight" [size], and the bias of a LayerNorm, 0 if it has none. 1 is added if
// `norms.offset` is set and the file stores w (see Checkpoint's NormConvention).
Result<nn::Norm> take_norm(const ModelBuilder& builder, const std::string& name, int size,
                           const NormsSpec& norms);
// Attention's projections under `prefix` (q_proj, k_proj, v_proj, o_proj, q_norm, k_norm), or in place of the
// first three qkv_proj with the rows of all. With an output gate, q_proj holds [query | gate] per head. A
// layer that reads the keys and values of another layer has no k_proj and v_proj.
Result<nn::Attention> take_attention(const ModelBuilder& builder, const std::string& prefix,
                                     const LayerSpec& layer);
// The weights of Qwen3.5's Gated DeltaNet under `prefix` (qwen3_5.cc).
Result<nn::Recurrence> take_gated_delta(const ModelBuilder& builder, const std::string& prefix,
                                        const LayerSpec& layer);
// How one row is read from several streams (qwen4_exp.cc): hc_norm, input_mix_weight_down and
// input_mix_weight_up under `prefix`.
Result<nn::StreamMixer> take_stream_mixer(const ModelBuilder& builder, const std::string& prefix,
                                          const NormsSpec& norms);
// Latent attention's projections under `prefix`: q_proj, or q_a_proj, q_a_layernorm and q_b_proj;
// kv_a_proj_with_mqa, kv_a_layernorm, kv_b_proj (or in its place embed_q and unembed_out), o_proj.
Result<nn::LatentAttention> take_latent_attention(const ModelBuilder& builder, const std::string& prefix,
                                                  const LayerSpec& layer);
// The matrices of an MLP or a mixture under `prefix`: gate_proj, up_proj (or both in gate_up_proj) and
// down_proj; or gate (the router), switch_mlp.* (checkpoint/experts.h), shared_expert.* and
// shared_expert_gate.
Result<nn::FeedForward> take_feed_forward(const ModelBuilder& builder, const std::string& prefix,
                                          const FeedForwardSpec& spec, const LayerForm& form = {});
Result<ops::ExpertMatrices> take_experts(const ModelBuilder& builder, const std::string& name,
                                         const MoeSpec& moe, int rows, int cols);
Result<nn::Mlp> take_mlp(const ModelBuilder& builder, const std::string& prefix, const MlpSpec& mlp,
                         const LayerForm& form = {});
// A layer of both parts, with the norms under `prefix` that its form names.
Result<nn::DecoderLayer> join_layer(const ModelBuilder& builder, const std::string& prefix,
                                    const LayerSpec& layer, nn::Mixer mixer, nn::FeedForward feed_forward);

}  // namespace anabranch
