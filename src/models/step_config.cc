// Step 3.5 and 3.7 (text): numbers of heads that differ by kind of layer, a gate for each head, and clamped
// units in some layers. Reference: Transformers' modeling_step3p7.py and configuration_step3p7.py.
#include <cmath>

#include "models/llama_own_keys.h"

namespace anabranch {
namespace {

constexpr std::pair<const char*, const char*> kOlderNames[] = {
    {"num_attention_groups", "num_key_value_heads"}, {"moe_num_experts", "n_routed_experts"},
    {"num_local_experts", "n_routed_experts"},       {"moe_top_k", "num_experts_per_tok"},
    {"share_expert_dims", "share_expert_dim"},       {"num_mtp_layers", "num_nextn_predict_layers"}};

size_t size_at(const Json& config, const char* key) {
  const auto at = config.find(key);
  return at != config.end() && at->is_number_integer() && *at >= 0 && *at <= 1024 ? at->get<size_t>() : 0;
}

// Lists for each layer may go on with the layers of the prediction head.
void cut_lists(Json& config, size_t layers) {
  const size_t padded = layers + size_at(config, "num_nextn_predict_layers");
  for (const char* key : {"layer_types", "mlp_layer_types", "swiglu_limits", "swiglu_limits_shared",
                          "rope_theta", "partial_rotary_factors"}) {
    const auto list = config.find(key);
    if (list != config.end() && list->is_array() && list->size() == padded)
      list->erase(list->begin() + static_cast<std::ptrdiff_t>(layers), list->end());
  }
}

// "moe_layers_enum", the layers with experts, as a string or a list, as "mlp_layer_types".
void list_mixtures(Json& config, size_t layers) {
  const auto listed = config.find("moe_layers_enum");
  if (listed == config.end() || listed->is_null() || !config.value("mlp_layer_types", Json()).is_null())
    return;
  std::string text = listed->is_string() ? listed->get<std::string>() : std::string();
  if (listed->is_array())
    for (const Json& layer : *listed) text += layer.dump() + ",";
  Json types(layers, "dense");
  const char* at = text.c_str();
  for (char* end = nullptr; *at; at = *end ? end + 1 : end) {
    const long layer = std::strtol(at, &end, 10);
    if (end != at && layer >= 0 && layer < static_cast<long>(layers))
      types[static_cast<size_t>(layer)] = "sparse";
  }
  config["mlp_layer_types"] = std::move(types);
}

// One number or share for all layers, or one for each, as an entry for each kind of layers. What scales a
// rope is only for layers without windows.
void describe_ropes(Json& config, size_t layers) {
  const Json types = config.value("layer_types", Json());
  Json& ropes = config["rope_parameters"];
  const auto kind_of = [&](size_t i) -> Json {
    return types.is_array() && i < types.size() ? types[i] : Json("full_attention");
  };
  bool complete = ropes.is_object();
  for (size_t i = 0; i < layers; i++)
    complete =
        complete && kind_of(i).is_string() && ropes.value(kind_of(i).get<std::string>(), Json()).is_object();
  if (!complete) {
    ropes = Json::object();
    for (size_t i = 0; i < layers; i++) {
      if (!kind_of(i).is_string() || ropes.contains(kind_of(i).get<std::string>())) continue;
      Json& own = ropes[kind_of(i).get<std::string>()] = {{"rope_type", "default"}};
      const auto add = [&](const char* key, const char* as) {
        const Json value = config.value(key, Json());
        const Json of_layer = !value.is_array() ? value : i < value.size() ? value[i] : Json();
        if (!of_layer.is_null()) own[as] = of_layer;
      };
      add("rope_theta", "rope_theta"), add("partial_rotary_factors", "partial_rotary_factor");
      const Json scaling = config.value("rope_scaling", Json());
      if (kind_of(i) == "full_attention" && scaling.is_object()) own.update(scaling);
    }
  }
  for (const char* key : {"rope_theta", "partial_rotary_factors", "rope_scaling"}) config.erase(key);
}

// The layer's entry, a positive number; without a list, and where it is null or 0: none.
std::optional<ops::ClampedGlu> limit_of_layer(ConfigReader& c, const Json& json, const char* key,
                                              size_t layer, size_t layers) {
  const auto list = json.find(key);
  if (list == json.end() || list->is_null() || (list->is_array() && list->empty())) return {};
  if (!list->is_array() || list->size() != layers) {
    c.invalid(fmt::format("{} does not have num_hidden_layers entries", key));
    return {};
  }
  const Json& limit = (*list)[layer];
  if (limit.is_null() || limit == 0) return {};
  if (!limit.is_number() || limit <= 0 || limit > 1e9) {
    c.invalid(fmt::format("{} must have numbers from 0 to 1e9", key));
    return {};
  }
  return ops::ClampedGlu{.limit = limit.get<float>(), .silu_first = true};
}

// The number of heads in layers with windows: in "per_layer_config" of files that Transformers saved, which
// counts, or else for all of them.
void read_heads(ConfigReader& c, const Json& json, ModelSpec& spec) {
  const auto each = json.find("per_layer_config");
  const bool saved = each != json.end() && each->is_object();
  const int windowed = c.integer_or("num_sliding_attention_heads", 1, 4096, 0);
  for (size_t i = 0; i < spec.layers.size(); i++) {
    auto& attention = std::get<AttentionSpec>(spec.layers[i].mixer);
    if (!saved && windowed > 0 && attention.window > 0) attention.heads = windowed;
    const auto own = saved ? each->find(std::to_string(i)) : each;
    if (saved && own != each->end()) {
      for (const auto& [key, value] : own->items())
        if (key != "num_attention_heads")
          c.unsupported("per_layer_config", "\"" + key + "\"", "num_attention_heads is");
      ConfigReader layer(*own, "per_layer_config");
      attention.heads = layer.integer_or("num_attention_heads", 1, 4096, attention.heads);
      if (const auto checked = layer.check(); !checked) c.invalid(checked.error().message);
    }
    if (attention.heads % attention.kv_heads != 0)
      c.invalid("num_sliding_attention_heads and per_layer_config must be multiples of num_key_value_heads");
  }
}

}  // namespace

Json step_in_usual_form(Json config) {
  for (const auto& [older, usual] : kOlderNames)
    if (config.contains(older) && !config.contains(usual)) config[usual] = config[older];
  const size_t layers = size_at(config, "num_hidden_layers");
  cut_lists(config, layers);
  list_mixtures(config, layers);
  describe_ropes(config, layers);
  const Json windowed = config.value("attention_other_setting", Json());
  if (config.value("num_sliding_attention_heads", Json()).is_null() && windowed.is_object() &&
      windowed.contains("num_attention_heads"))
    config["num_sliding_attention_heads"] = windowed["num_attention_heads"];
  return config;
}

void read_step(ConfigReader& c, const Json& json, ModelSpec& spec) {
  if (c.is_string("gating", "per-element") || c.is_false("gating"))
    c.unsupported("gating", json["gating"].dump(), "true is, in this family");
  const double square = c.number_or("query_pre_attn_scalar", 1e-6, 1e9, 0);
  spec.norms.offset = true;
  read_heads(c, json, spec);
  const size_t layers = spec.layers.size();
  for (size_t i = 0; i < layers; i++) {
    LayerSpec& layer = spec.layers[i];
    auto& attention = std::get<AttentionSpec>(layer.mixer);
    attention.gate = GateSpec();
    if (square > 0) attention.scale = static_cast<float>(1 / std::sqrt(square));
    layer.norms.offset = true;
    const auto shared = limit_of_layer(c, json, "swiglu_limits_shared", i, layers);
    if (auto* mlp = std::get_if<MlpSpec>(&layer.mlp)) mlp->clamped = shared;
    if (auto* moe = std::get_if<MoeSpec>(&layer.mlp)) {
      moe->clamped = limit_of_layer(c, json, "swiglu_limits", i, layers);
      moe->shared_clamped = shared;
    }
  }
}

}  // namespace anabranch
