// Lara 4 Mini: Gated DeltaNet, attention with windows and rotary positions, attention with neither, and
// mixtures of experts. Reference: Transformers' modeling_lara_mini.py and configuration_lara_mini.py.
#include "models/hybrid_config.h"

namespace anabranch::hybrid {
namespace {

constexpr MoeKeys kLaraMoe{
    .shared_width = "shared_expert_intermediate_size", .default_shared = 512, .normalise = "norm_topk_prob"};
constexpr const char* kLaraPattern[] = {"linear_attention", "sliding_attention", "linear_attention",
                                        "full_attention", "sliding_attention"};

}  // namespace

void read_lara(ConfigReader& c, const Json&, ModelSpec& spec) {
  read_sizes(c, {1024, 151936, 131072, "rms_norm_eps", 1e-6, true}, spec);
  AttentionSpec attention = read_attention(c, {16, 4, 128}, spec.hidden);
  attention.qk_norm = true;
  const bool bias = c.boolean_or("attention_bias", false);
  read_biases(c, bias, bias, attention);
  const int window = c.integer_or("sliding_window", 1, 1 << 27, 512);
  const ops::RecurrenceShape delta = read_delta_net(c, 8, 16, 1);
  require_silu(c);
  const MoeSpec experts = read_moe(c, kLaraMoe);
  const int layers = c.integer_or("num_hidden_layers", 1, 1024, 34);
  auto types = c.strings("layer_types");
  if (!c.has("layer_types"))
    for (int i = 0; i < layers; i++) types.emplace_back(kLaraPattern[i % 5]);
  if (static_cast<int>(types.size()) != layers)
    c.invalid("layer_types does not have num_hidden_layers entries");
  for (const std::string& type : types) {
    LayerSpec layer{attention, experts, spec.norms, 1};
    if (type == "linear_attention")
      layer.mixer = delta;
    else if (type == "sliding_attention")
      std::get<AttentionSpec>(layer.mixer).window = window, layer.rope = 0;
    else if (type != "full_attention")
      c.unsupported("layer_types", type, "linear_attention, sliding_attention and full_attention are");
    spec.layers.push_back(std::move(layer));
  }
  read_rope_of_whole_heads(c, attention.head_dim, 10000, spec);
  spec.ropes.push_back(no_rope());
}

}  // namespace anabranch::hybrid
