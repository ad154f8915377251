// What a family file provides, and the helpers they share for taking tensors.
#pragma once

#include <string>

#include "models/family_config.h"
#include "models/model.h"

namespace anabranch {

// Where devices may cut a layer: packed rows have tiles of 64 inputs, which stay whole (ops/cuda/linear.h),
// and so do 16 columns of the residual stream.
constexpr int kSharedTile = 64, kSharedColumns = 16;

// A model while it is loaded: its files, its description, and the device that the weights go to.
struct ModelBuilder {
  Checkpoint& checkpoint;
  const ModelSpec& spec;
  Device& device;
  // The matrices are for drafts only. Dense ones are rounded to 8 bits where that is faster: as many drafts
  // are right, and a draft costs a third less.
  bool for_drafts = false;
  // The device's end of the group among whose devices layers are split; null: it has all of each.
  ops::Collective* group = nullptr;
  // There is memory for the matrices of products that are split by their inputs for few rows, beside those
  // that are split by their outputs for many.
  bool keeps_own_inputs = false;

  // How `units` units of `size` rows are split, and this device's.
  ops::Split split(int units, int size) const {
    return ops::split_units(units, size, group ? group->ranks() : 1);
  }
  int rank() const { return group ? group->rank() : 0; }

  // As Checkpoint has them.
  Result<WeightSource> take_matrix(const std::string& name, int64_t rows, int64_t cols) const;
  Result<WeightSource> take_matrices(const std::string& name, int64_t count, int64_t rows,
                                     int64_t cols) const;
};

// A family: reads its config, then builds one decoder layer at a time from tensors named "<prefix>...", and,
// if it knows one (else null), the MTP head from tensors "mtp...".
struct Family {
  Result<ModelSpec> (*read_config)(const Json& config, const std::string& file);
  Result<nn::DecoderLayer> (*build_layer)(const ModelBuilder& builder, const std::string& prefix,
                                          const LayerSpec& layer);
  Result<nn::Mtp> (*build_mtp)(const ModelBuilder& builder) = nullptr;
  // For specs with a per_layer_width.
  Result<nn::PerLayerInputs> (*build_per_layer_inputs)(const ModelBuilder& builder) = nullptr;
};

// The Llama family's members (llama.cc), and mistral3, whose text model is one of them; null for others.
const Family* find_llama_family(const std::string& model_type);
const Family& qwen3_5_family();  // qwen3_5, qwen3_5_text (qwen3_5.cc)
const Family& gemma_family();    // gemma2, gemma3, gemma4 (gemma.cc)

// A projection "<name>.weight" [out, in], with "<name>.bias" when `bias`.
Result<nn::Linear> take_linear(const ModelBuilder& builder, const std::string& name, int out, int in,
                               bool bias = false);
// Some rows of the projection, and of its bias.
Result<nn::Linear> take_rows_of_linear(const ModelBuilder& builder, const std::string& name, int out, int in,
                                       const std::vector<int64_t>& rows, bool bias = false);
// A projection back to the residual stream, [hidden, inputs.all()]: of a group's device, its share of the
// outputs. inputs: how its input is split.
Result<nn::Linear> take_last_linear(const ModelBuilder& builder, const std::string& name, ops::Split inputs,
                                    bool bias = false);
// Rows [begin, end), behind `rows`.
void append_rows(std::vector<int64_t>& rows, int64_t begin, int64_t end);
// Of a vector, these elements, on the builder's device.
Tensor take_elements(const ModelBuilder& builder, const Tensor& values, const std::vector<int64_t>& rows);
// A norm's multiplier "<name>.weight" [size]; 1 is added when `norms.offset` and the file stores w
// (Checkpoint's NormConvention).
Result<nn::RmsNorm> take_norm(const ModelBuilder& builder, const std::string& name, int size,
                              const NormsSpec& norms);
// Attention's projections under `prefix` (q_proj, k_proj, v_proj, o_proj, q_norm, k_norm). With an output
// gate, q_proj holds [query | gate] per head. A layer that reads another's keys and values has none of k and
// v.
Result<nn::Attention> take_attention(const ModelBuilder& builder, const std::string& prefix,
                                     const LayerSpec& layer);
// The matrices of an MLP or a mixture under `prefix`: gate_proj, up_proj and down_proj; or gate (the router),
// switch_mlp.* (checkpoint/experts.h), shared_expert.* and shared_expert_gate.
Result<nn::FeedForward> take_feed_forward(const ModelBuilder& builder, const std::string& prefix,
                                          const FeedForwardSpec& spec);
Result<ops::ExpertMatrices> take_experts(const ModelBuilder& builder, const std::string& name,
                                         const MoeSpec& moe, int rows, int cols);
Result<nn::Mlp> take_mlp(const ModelBuilder& builder, const std::string& prefix, const MlpSpec& mlp);

}  // namespace anabranch
