// Laguna: softplus gates of heads or values, numbers of heads that differ by layer, and a router whose logits
// may be soft-capped. Reference: Transformers' modeling_laguna.py and configuration_laguna.py.
#include "models/llama_own_keys.h"

namespace anabranch {

void read_laguna(ConfigReader& c, const Json&, ModelSpec& spec) {
  GateSpec gate{.curve = ops::GateCurve::softplus};
  if (c.is_string("gating", "per-element"))
    gate.of_heads = false;
  else if (!c.is_string("gating", "per-head") && (c.is_false("gating") || !c.boolean_or("gating", true)))
    c.unsupported("gating", "false", "true, \"per-head\" and \"per-element\" are");
  const auto heads = c.integers("num_attention_heads_per_layer");
  const bool listed = heads.size() == spec.layers.size();
  if (c.has("num_attention_heads_per_layer") && !listed)
    c.invalid("num_attention_heads_per_layer does not have num_hidden_layers entries");
  const auto cap = static_cast<float>(c.number_or("moe_router_logit_softcapping", 0, 1e6, 0));
  for (size_t i = 0; i < spec.layers.size(); i++) {
    auto& attention = std::get<AttentionSpec>(spec.layers[i].mixer);
    attention.gate = gate;
    if (listed) attention.heads = heads[i];
    if (attention.heads < 1 || attention.heads > 4096 || attention.heads % attention.kv_heads != 0)
      c.invalid("num_attention_heads_per_layer must have multiples of num_key_value_heads, up to 4096");
    if (auto* moe = std::get_if<MoeSpec>(&spec.layers[i].mlp)) moe->routing.soft_cap = cap;
  }
}

}  // namespace anabranch
