// The weights of Gemma 2, 3 and 4 (gemma_config.cc).
#include <cmath>

#include "models/family.h"

namespace anabranch {
namespace {

// A norm's weight times `factor`.
Result<nn::Norm> take_scaled_norm(const ModelBuilder& builder, const std::string& name, int size,
                                  float factor, float eps) {
  TRY(auto weight, builder.checkpoint.take(name, {size}));
  for (int i = 0; i < size; i++) weight.data<float>()[i] *= factor;
  return nn::Norm{{builder.device.to_device(weight), eps}};
}

Result<nn::MlpAndMoe> take_mlp_and_moe(const ModelBuilder& builder, const std::string& p,
                                       const MlpAndMoeSpec& spec, const NormsSpec& norms) {
  const int hidden = builder.spec.hidden;
  TRY(auto mlp, take_mlp(builder, p + "mlp.", spec.mlp));
  TRY(auto post_mlp, take_norm(builder, p + "post_feedforward_layernorm_1", hidden, norms));
  TRY(auto pre_moe, take_norm(builder, p + "pre_feedforward_layernorm_2", hidden, norms));
  TRY(auto post_moe, take_norm(builder, p + "post_feedforward_layernorm_2", hidden, norms));
  nn::Moe moe;
  moe.routing = spec.moe.routing;
  moe.activation = spec.moe.activation;
  TRY(auto router, take_linear(builder, p + "router.proj", spec.moe.experts, hidden));
  moe.router = std::move(router.weight);
  TRY(moe.router_norm, take_scaled_norm(builder, p + "router.scale", hidden,
                                        1 / std::sqrt(static_cast<float>(hidden)), norms.eps));
  TRY(auto scale, builder.checkpoint.take(p + "router.per_expert_scale", {spec.moe.experts}));
  moe.expert_scale = builder.device.to_device(scale);
  const int inner = spec.moe.intermediate;
  TRY(moe.gate, take_experts(builder, p + "mlp.switch_mlp.gate_proj", spec.moe, inner, hidden));
  TRY(moe.up, take_experts(builder, p + "mlp.switch_mlp.up_proj", spec.moe, inner, hidden));
  TRY(moe.down, take_experts(builder, p + "mlp.switch_mlp.down_proj", spec.moe, hidden, inner));
  return nn::MlpAndMoe{std::move(mlp), std::move(post_mlp), std::move(pre_moe), std::move(moe),
                       std::move(post_moe)};
}

Result<nn::FeedForward> take_halves(const ModelBuilder& builder, const std::string& p,
                                    const LayerSpec& layer) {
  if (const auto* both = std::get_if<MlpAndMoeSpec>(&layer.mlp)) {
    TRY(nn::FeedForward out, take_mlp_and_moe(builder, p, *both, layer.norms));
    return out;
  }
  return take_feed_forward(builder, p + "mlp.", layer.mlp);
}

Result<nn::DecoderLayer> build_layer(const ModelBuilder& builder, const std::string& p,
                                     const LayerSpec& layer) {
  const ModelSpec& spec = builder.spec;
  const int hidden = spec.hidden, width = spec.per_layer_width;
  TRY(auto attention, take_attention(builder, p + "self_attn.", layer));
  TRY(auto mlp, take_halves(builder, p, layer));
  TRY(auto out, join_layer(builder, p, layer, std::move(attention), std::move(mlp)));
  if (spec.family != "gemma4") return out;
  TRY(const auto scale, builder.checkpoint.take(p + "layer_scalar", {1}));
  out.scale = scale.data<float>()[0];
  if (width == 0) return out;
  TRY(auto gate, take_linear(builder, p + "per_layer_input_gate", width, hidden));
  TRY(auto projection, take_linear(builder, p + "per_layer_projection", hidden, width));
  TRY(auto norm, take_norm(builder, p + "post_per_layer_input_norm", hidden, layer.norms));
  out.per_layer = nn::PerLayerGate{std::move(gate.weight), std::move(projection.weight), std::move(norm)};
  return out;
}

// (norm(c * W x) + sqrt(width) * table[id]) / sqrt(2) with c = 1 / sqrt(hidden): the factors are moved to the
// norm's eps and weight, and to the table's scale.
Result<nn::PerLayerInputs> build_per_layer_inputs(const ModelBuilder& builder) {
  const ModelSpec& spec = builder.spec;
  const int layers = static_cast<int>(spec.layers.size()), width = spec.per_layer_width;
  const float half = 1 / std::sqrt(2.0f);
  nn::PerLayerInputs out{layers, width};
  out.table_scale = std::sqrt(static_cast<float>(width)) * half;
  TRY(const auto table, builder.checkpoint.take_matrix("model.embed_tokens_per_layer.weight",
                                                       spec.per_layer_vocab, int64_t{layers} * width));
  out.table = ops::Weight::make(builder.device, table);
  TRY(auto projection, take_linear(builder, "model.per_layer_model_projection", layers * width, spec.hidden));
  out.projection = std::move(projection.weight);
  TRY(out.norm, take_scaled_norm(builder, "model.per_layer_projection_norm.weight", width, half,
                                 spec.norms.eps * static_cast<float>(spec.hidden)));
  return out;
}

}  // namespace

const Family& gemma_family() {
  static const Family family{read_gemma_config, build_layer, nullptr, build_per_layer_inputs};
  return family;
}

}  // namespace anabranch
