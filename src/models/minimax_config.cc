// MiniMax-01: lightning attention and softmax attention in turns, mixtures of experts, and a residual stream
// that goes through the norms. Reference: Transformers' modeling_minimax.py and configuration_minimax.py.
#include <algorithm>

#include "models/hybrid_config.h"
#include "models/rope.h"

namespace anabranch::hybrid {
namespace {

ops::RecurrenceShape lightning(const AttentionSpec& attention) {
  ops::RecurrenceShape shape;
  shape.key_heads = shape.value_heads = attention.heads;
  shape.key_dim = shape.value_dim = attention.head_dim;
  shape.conv_kernel = 1;
  shape.sigmoid_gate = true;
  shape.rule = {.delta = false,
                .unit_keys = false,
                .beta = Rule::Beta::one,
                .decay = Rule::Decay::constant,
                .norm_group = attention.heads * attention.head_dim};
  return shape;
}

nn::NormedResidual read_residual(ConfigReader& c, const std::string& mixer) {
  const auto factor = [&](const std::string& key) {
    return static_cast<float>(c.number_or(key.c_str(), -1e9, 1e9, 1));
  };
  return {factor(mixer + "_alpha_factor"), factor(mixer + "_beta_factor"), factor("mlp_alpha_factor"),
          factor("mlp_beta_factor")};
}

}  // namespace

void read_minimax(ConfigReader& c, const Json&, ModelSpec& spec) {
  read_sizes(c, {4096, 32000, 131072, "rms_norm_eps", 1e-5, false}, spec);
  AttentionSpec attention = read_attention(c, {32, 8}, spec.hidden);
  attention.window = c.integer_or("sliding_window", 1, 1 << 27, 0);
  const ops::RecurrenceShape recurrence = lightning(attention);
  require_silu(c);
  const MoeSpec experts = read_moe(c, {.intermediate = "intermediate_size"});
  const auto full = read_residual(c, "full_attn"), linear = read_residual(c, "linear_attn");
  const int layers = c.integer_or("num_hidden_layers", 1, 1024, 32);
  auto kinds = kinds_of(c, "layer_types", c.strings("layer_types"), {Kind::attention, Kind::recurrence});
  if (!c.has("layer_types"))
    for (int i = 0; i < layers; i++) kinds.push_back(i % 2 == 0 ? Kind::attention : Kind::recurrence);
  if (static_cast<int>(kinds.size()) != layers)
    c.invalid("layer_types does not have num_hidden_layers entries");
  for (size_t i = 0; i < kinds.size(); i++) {
    LayerSpec layer{attention, experts, spec.norms};
    layer.normed_residual = full;
    layer.form.recurrence = "self_attn.";
    if (kinds[i] == Kind::recurrence) {
      layer.mixer = recurrence;
      layer.normed_residual = linear;
      layer.decay_factor = static_cast<float>(1 - static_cast<double>(i) / (layers - 1 + 1e-5) + 1e-5);
    }
    spec.layers.push_back(std::move(layer));
  }
  const Json parameters = rope_parameters_of(c, "full_attention");
  const double usual = c.integer_or("rotary_dim", 0, attention.head_dim, attention.head_dim);
  const double part = usual / std::max(attention.head_dim, 1);
  read_one_rope(c, parameters, turned_dims(c, parameters, attention.head_dim, part), 1e6, spec);
}

}  // namespace anabranch::hybrid
