// MiMo-V2-Flash: values narrower than keys, and in layers with windows twice as many key heads and attention
// sinks. Reference: Transformers' modeling_mimo_v2_flash.py and configuration_mimo_v2_flash.py.
#include "models/llama_own_keys.h"

namespace anabranch {

void read_mimo(ConfigReader& c, const Json&, ModelSpec& spec) {
  const int values = c.integer_or("v_head_dim", 1, 1024, 128);
  const double scale =
      c.is_null("attention_value_scale") ? 1 : c.number_or("attention_value_scale", -1e6, 1e6, 0.707);
  // Files of the model's own code state the window without the token itself.
  const int before = c.integer_or("sliding_window_size", 0, 1 << 27, -1);
  for (LayerSpec& layer : spec.layers) {
    auto& attention = std::get<AttentionSpec>(layer.mixer);
    if (values > attention.head_dim)
      c.unsupported("v_head_dim", fmt::format("{}", values), "head_dim or less is");
    if (values < attention.head_dim) attention.value_dim = values;
    attention.out_scale = static_cast<float>(scale);
    attention.sinks = attention.window > 0;
    if (attention.window == 0) continue;
    if (before >= 0) attention.window = before + 1;
    attention.kv_heads *= 2;
    if (attention.heads % attention.kv_heads != 0)
      c.invalid("num_attention_heads must be a multiple of twice num_key_value_heads");
  }
}

}  // namespace anabranch
