// Kimi Linear: Kimi Delta Attention, whose state decays by channel of the keys, and latent attention without
// positions. Reference: Transformers' modeling_kimi_linear.py and configuration_kimi_linear.py.
#include <algorithm>

#include "models/hybrid_config.h"

namespace anabranch::hybrid {
namespace {

// "linear_attn_config" of published files, or the keys that Transformers saves.
ops::RecurrenceShape read_delta(ConfigReader& c, ConfigReader& published) {
  const auto size = [&](const char* key, const char* newer, int64_t high, int absent) {
    return published.integer_or(key, 1, high, c.integer_or(newer, 1, high, absent));
  };
  ops::RecurrenceShape shape;
  shape.key_heads = shape.value_heads = size("num_heads", "linear_num_heads", 4096, 32);
  shape.key_dim = shape.value_dim = size("head_dim", "linear_head_dim", 1024, 128);
  shape.conv_kernel = size("short_conv_kernel_size", "linear_conv_kernel_dim", kMaxConvKernel, 4);
  shape.sigmoid_gate = true;
  shape.rule.key_decay = true;
  return shape;
}

// Published files list the layers of both kinds, counted from 1.
std::vector<Kind> read_kinds(ConfigReader& c, ConfigReader& published, int layers) {
  if (c.has("layer_types"))
    return kinds_of(c, "layer_types", c.strings("layer_types"), {Kind::attention, Kind::recurrence});
  const auto full = published.integers("full_attn_layers"), delta = published.integers("kda_layers");
  const bool listed = published.has("full_attn_layers") && published.has("kda_layers");
  std::vector<Kind> kinds;
  for (int i = 0; i < layers; i++) {
    const bool attends = listed ? std::ranges::find(full, i + 1) != full.end() : i > 0 && i % 4 == 0;
    if (listed && attends == (std::ranges::find(delta, i + 1) != delta.end()))
      c.invalid(fmt::format("layer {} must be in one of full_attn_layers and kda_layers", i + 1));
    kinds.push_back(attends ? Kind::attention : Kind::recurrence);
  }
  return kinds;
}

constexpr MoeKeys kKimiMoe{
    .shared_count = "n_shared_experts",
    .default_shared = 1,
    .choice_bias = true,
    .routing = {.scores = ops::RouterSpec::Scores::sigmoid, .scale = 2.446f, .added_sum = 1e-20f},
    .normalise = "norm_topk_prob",
    .scale = "routed_scaling_factor",
    .groups = true,
    .layers = MoeKeys::Layers::listed,
    .default_dense = 1};

// How published configs say that there is no other router, and that latent attention has no positions.
void check_published(ConfigReader& c) {
  if (const auto scores = c.string_or("moe_router_activation_func", "sigmoid"); scores != "sigmoid")
    c.unsupported("moe_router_activation_func", scores, "sigmoid is");
  if (const int step = c.integer_or("moe_layer_freq", 0, 1024, 1); step != 1)
    c.unsupported("moe_layer_freq", fmt::format("{}", step), "1 is");
  if (!c.boolean_or("mla_use_nope", true)) c.unsupported("mla_use_nope", "false", "true is");
}

}  // namespace

void read_kimi_linear(ConfigReader& c, const Json&, ModelSpec& spec) {
  read_sizes(c, {2304, 163840, 1048576, "rms_norm_eps", 1e-5, false}, spec);
  check_published(c);
  const Json& published = c.object("linear_attn_config");
  ConfigReader inner(published, "linear_attn_config");
  const ops::RecurrenceShape delta = read_delta(c, inner);
  const int layers = c.integer_or("num_hidden_layers", 1, 1024, 27);
  auto kinds = read_kinds(c, inner, layers);
  if (const auto good = inner.check(); !good) c.invalid(good.error().message);
  if (static_cast<int>(kinds.size()) != layers)
    c.invalid("layer_types does not have num_hidden_layers entries");
  kinds.resize(static_cast<size_t>(layers));
  const MlpSpec mlp = read_mlp(c, "intermediate_size", 9216, false);
  for (const Kind kind : kinds) {
    LayerSpec layer{delta, mlp, spec.norms};
    layer.form.recurrence = "self_attn.";
    if (kind == Kind::attention) layer.mixer = read_latent_attention(c, {0, 512, 128, 64, 128}, spec.hidden);
    spec.layers.push_back(std::move(layer));
  }
  for (const int i : sparse_layers(c, kKimiMoe, layers))
    spec.layers[static_cast<size_t>(i)].mlp = read_moe(c, kKimiMoe, i);
  spec.ropes = {no_rope()};
}

}  // namespace anabranch::hybrid
