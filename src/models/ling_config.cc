// Ling 3 (bailing_hybrid): Kimi Delta Attention, whose decay has a bound, and latent attention with a gate of
// each head's output. Reference: Transformers' modeling_bailing_hybrid.py and
// configuration_bailing_hybrid.py.
#include "models/hybrid_config.h"
#include "models/rope.h"

namespace anabranch::hybrid {
namespace {

constexpr MoeKeys kLingMoe{.shared_count = "n_shared_experts",
                           .default_shared = 1,
                           .choice_bias = true,
                           .routing = {.scores = ops::RouterSpec::Scores::sigmoid,
                                       .scale = 2.5f,
                                       .added_sum = 1e-20f,
                                       .groups = 8,
                                       .top_groups = 4},
                           .normalise = "norm_topk_prob",
                           .scale = "routed_scaling_factor",
                           .groups = true,
                           .layers = MoeKeys::Layers::listed,
                           .default_dense = 2};

// Files that Transformers saved have another number as "head_dim", and beside it the keys with "linear".
ops::RecurrenceShape read_bounded_delta(ConfigReader& c, int heads) {
  ops::RecurrenceShape shape;
  shape.key_heads = shape.value_heads = c.integer_or("linear_num_heads", 1, 4096, heads);
  shape.key_dim = shape.value_dim =
      c.integer_or("linear_head_dim", 1, 1024, c.integer_or("head_dim", 1, 1024, 128));
  shape.conv_kernel = c.integer_or("linear_conv_kernel_dim", 1, kMaxConvKernel,
                                   c.integer_or("short_conv_kernel_size", 1, kMaxConvKernel, 4));
  shape.sigmoid_gate = true;
  shape.rule.key_decay = true;
  const auto bound = static_cast<float>(c.number_or("kda_lower_bound", -1e4, 0, -5));
  if (c.boolean_or("kda_safe_gate", true)) shape.rule.decay = Rule::Decay::bounded, shape.rule.bound = bound;
  return shape;
}

LatentAttentionSpec read_gated_latent(ConfigReader& c, ModelSpec& spec) {
  LatentAttentionSpec attention = read_latent_attention(c, {0, 512, 128, 64, 128}, spec.hidden);
  attention.neighbours_turn = attention.head_gate = true;
  require_pairs(c, attention);
  const Json rope = rope_parameters_of(c, "full_attention");
  attention.scale = scale_of_scores(rope, attention.scale);
  read_one_rope(c, rope, attention.turned_dim, 6e6, spec);
  return attention;
}

}  // namespace

void read_ling(ConfigReader& c, const Json&, ModelSpec& spec) {
  read_sizes(c, {2560, 157184, 262144, "rms_norm_eps", 1e-6, false}, spec);
  const LatentAttentionSpec attention = read_gated_latent(c, spec);
  const ops::RecurrenceShape delta = read_bounded_delta(c, attention.heads);
  const MlpSpec mlp = read_mlp(c, "intermediate_size", 6144, false);
  if (const auto scores = c.string_or("score_function", "sigmoid"); scores != "sigmoid")
    c.unsupported("score_function", scores, "sigmoid is");
  const int layers = c.integer_or("num_hidden_layers", 1, 1024, 42);
  const int group = c.integer_or("layer_group_size", 1, 1024, 6);
  auto kinds = kinds_of(c, "layer_types", c.strings("layer_types"), {Kind::attention, Kind::recurrence});
  if (!c.has("layer_types"))
    for (int i = 0; i < layers; i++)
      kinds.push_back((i + 1) % group == 0 ? Kind::attention : Kind::recurrence);
  if (static_cast<int>(kinds.size()) != layers)
    c.invalid("layer_types does not have num_hidden_layers entries");
  kinds.resize(static_cast<size_t>(layers));
  for (const Kind kind : kinds) {
    LayerSpec layer{attention, mlp, spec.norms};
    layer.form.recurrence = "self_attn.";
    if (kind == Kind::recurrence) layer.mixer = delta;
    spec.layers.push_back(std::move(layer));
  }
  for (const int i : sparse_layers(c, kLingMoe, layers))
    spec.layers[static_cast<size_t>(i)].mlp = read_moe(c, kLingMoe, i);
}

}  // namespace anabranch::hybrid
