// LFM3: short convolutions, attention with and without windows, each kind with its own rotary positions,
// norms before and after both parts, and a gate for each head. Reference: Transformers' modeling_lfm3.py and
// configuration_lfm3.py.
#include <algorithm>

#include "models/hybrid_config.h"
#include "models/rope.h"

namespace anabranch::hybrid {
namespace {

constexpr LayerForm kForm{.norm1 = "operator_norm",
                          .norm2 = "ffn_norm",
                          .gate = "w1",
                          .up = "w3",
                          .down = "w2",
                          .recurrence = "conv.",
                          .mlp = "feed_forward."};

std::vector<std::string> read_layer_types(ConfigReader& c) {
  const int layers = c.integer_or("num_hidden_layers", 1, 1024, 24);
  auto types = c.strings("layer_types");
  if (!c.has("layer_types"))
    for (int i = 0; i < layers; i++)
      types.emplace_back(i % 4 == 2 ? "full_attention" : i % 4 == 0 && i > 0 ? "sliding_attention" : "conv");
  if (static_cast<int>(types.size()) != layers)
    c.invalid("layer_types does not have num_hidden_layers entries");
  return types;
}

// The rope of one kind of layers. Without "rope_parameters" full layers turn the first half of each head's
// pairs.
ops::Rope read_kind_of_rope(ConfigReader& c, const char* kind, int head_dim, ModelSpec& spec) {
  const bool windowed = kind == std::string("sliding_attention");
  Json own = windowed
                 ? Json{{"rope_type", "default"}, {"rope_theta", 10000.0}}
                 : Json{{"rope_type", "proportional"}, {"rope_theta", 1e6}, {"partial_rotary_factor", 0.5}};
  if (!c.object("rope_scaling").empty())
    c.unsupported("rope_scaling", "an object", "rope_parameters is, in this family");
  if (c.has("rope_parameters")) {
    if (!c.object("rope_parameters").contains(kind))
      c.unsupported("rope_parameters", fmt::format("without an entry for {}", kind), "one for each kind is");
    own = rope_parameters_of(c, kind);
  }
  if (own.value("rope_type", Json()) == "proportional") return proportional_rope(c, own, head_dim, 1e6);
  require_whole_heads(c, own);
  const RopeConfig out = read_rope(c, own, head_dim, 1e6);
  spec.context_length = std::max(spec.context_length, out.context_length);
  return out.rope;
}

AttentionSpec read_heads(ConfigReader& c, int hidden) {
  AttentionSpec attention = read_attention(c, {16, 4, 128}, hidden);
  attention.qk_norm = true;
  const bool bias = c.boolean_or("attention_bias", false);
  read_biases(c, bias, bias, attention);
  if (c.boolean_or("use_attention_gate", true)) attention.gate = GateSpec();
  return attention;
}

}  // namespace

void read_lfm3(ConfigReader& c, const Json&, ModelSpec& spec) {
  read_sizes(c, {2048, 128000, 128000, c.has("norm_eps") ? "norm_eps" : "rms_norm_eps", 1e-5, true}, spec);
  const AttentionSpec attention = read_heads(c, spec.hidden);
  ops::RecurrenceShape convolution;
  convolution.channels = spec.hidden;
  convolution.conv_kernel = c.integer_or("conv_L_cache", 1, kMaxConvKernel, 7);
  convolution.rule.conv_bias = c.boolean_or("conv_bias", false);
  const MlpSpec mlp{c.integer_or("intermediate_size", 1, 1 << 20, 7680)};
  const int window = integer_of(c, "sliding_window", 1, 1 << 27, 256, 0);
  LayerForm form = kForm;
  if (c.boolean_or("use_sandwich_norm", true))
    form.post1 = "post_operator_norm", form.post2 = "post_ffn_norm";
  bool any[2] = {};
  for (const std::string& type : read_layer_types(c)) {
    LayerSpec layer{convolution, mlp, spec.norms, 0, form};
    const bool windowed = type == "sliding_attention";
    if (windowed || type == "full_attention") {
      layer.mixer = attention, layer.rope = windowed ? 1 : 0, any[layer.rope] = true;
      if (windowed) std::get<AttentionSpec>(layer.mixer).window = window;
    } else if (type != "conv") {
      c.unsupported("layer_types", type, "conv, full_attention and sliding_attention are");
    }
    spec.layers.push_back(std::move(layer));
  }
  if (window == 0 && any[1])
    c.unsupported("sliding_window", "null, and some layers have windows", "a number is");
  spec.ropes = {any[0] ? read_kind_of_rope(c, "full_attention", attention.head_dim, spec) : no_rope(),
                any[1] ? read_kind_of_rope(c, "sliding_attention", attention.head_dim, spec) : no_rope()};
}

}  // namespace anabranch::hybrid
