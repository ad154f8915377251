// Keys of single members of the Llama family: what AFMoE and Hy3 have besides the usual ones, and the names
// and defaults of published configs that Transformers gives other names. References: modular_afmoe.py,
// modular_exaone.py, modular_internlm3.py, modular_sarvam_moe.py and modular_flint.py.
#include <cmath>

#include "models/llama_own_keys.h"

namespace anabranch {
namespace {

struct KeyNames {
  const char *published, *usual;
};

// Gives published keys their usual names. Of a config with both, the published one counts, as there.
Json renamed(Json config, std::initializer_list<KeyNames> names) {
  for (const auto& [published, usual] : names)
    if (config.contains(published)) config[usual] = config[published];
  return config;
}

}  // namespace

// Without shared experts Transformers makes one that is as wide as a dense layer's MLP.
void read_hy_v3(ConfigReader& c, const Json&, ModelSpec& spec) {
  for (LayerSpec& layer : spec.layers)
    if (auto* moe = std::get_if<MoeSpec>(&layer.mlp); moe && moe->shared_intermediate == 0)
      moe->shared_intermediate = c.integer("intermediate_size", 1, 1 << 20);
}

void read_afmoe(ConfigReader& c, const Json&, ModelSpec& spec) {
  if (c.boolean_or("mup_enabled", false)) spec.embedding_scale = std::sqrt(static_cast<float>(spec.hidden));
  for (LayerSpec& layer : spec.layers)
    std::get<AttentionSpec>(layer.mixer).gate = GateSpec{.of_heads = false};
}

Json exaone_in_usual_form(Json config) {
  return renamed(std::move(config), {{"num_layers", "num_hidden_layers"},
                                     {"layer_norm_epsilon", "rms_norm_eps"},
                                     {"activation_function", "hidden_act"}});
}

Json internlm3_in_usual_form(Json config) {
  return renamed(std::move(config), {{"qkv_bias", "attention_bias"}, {"bias", "mlp_bias"}});
}

Json sarvam_in_usual_form(Json config) {
  Json out = renamed(std::move(config), {{"num_experts", "n_routed_experts"},
                                         {"num_shared_experts", "n_shared_experts"},
                                         {"use_qkv_bias", "attention_bias"}});
  if (!out.contains("use_qk_norm")) out["use_qk_norm"] = true;
  if (!out.contains("routed_scaling_factor")) out["routed_scaling_factor"] = 2.5;
  return out;
}

// The first two layers, every fourth one and the last one have no window, and the first two are no mixtures.
Json flint_in_usual_form(Json config) {
  if (!config.contains("mlp_only_layers") || config["mlp_only_layers"].is_null())
    config["mlp_only_layers"] = {0, 1};
  const bool listed = config.contains("layer_types") && !config["layer_types"].is_null();
  const auto layers = config.find("num_hidden_layers");
  if (listed || layers == config.end() || !layers->is_number_integer() || *layers < 1 || *layers > 1024)
    return config;
  Json types = Json::array();
  for (int i = 0; i < layers->get<int>(); i++)
    types.push_back(i < 2 || i % 4 == 1 || i == layers->get<int>() - 1 ? "full_attention"
                                                                       : "sliding_attention");
  config["layer_types"] = std::move(types);
  return config;
}

}  // namespace anabranch
