// Falcon-H1: attention and Mamba2 side by side in each layer, with constant factors of many projections.
// Reference: Transformers' modeling_falcon_h1.py and configuration_falcon_h1.py.
#include "models/hybrid_config.h"

namespace anabranch::hybrid {
namespace {

float read_factor(ConfigReader& c, const char* key) {
  return static_cast<float>(c.number_or(key, -1e9, 1e9, 1));
}

// A list of so many factors; 1 where there is none.
std::vector<double> read_factors(ConfigReader& c, const char* key, size_t count) {
  std::vector<double> factors = c.numbers(key, -1e9, 1e9);
  if (c.has(key) && factors.size() != count) c.invalid(fmt::format("{} must have {} numbers", key, count));
  factors.resize(count, 1);
  return factors;
}

RecurrenceScales read_scales(ConfigReader& c) {
  const auto parts = read_factors(c, "ssm_multipliers", 5);
  const auto part = [&](size_t i) { return static_cast<float>(parts[i]); };
  return {.in = read_factor(c, "ssm_in_multiplier"),
          .z = part(0),
          .values = part(1),
          .keys = part(2),
          .queries = part(3),
          .a = part(4),
          .out = read_factor(c, "ssm_out_multiplier")};
}

ops::RecurrenceShape read_mixer(ConfigReader& c, const Json& json, int hidden) {
  const int width =
      c.is_null("mamba_d_ssm") ? expanded_width(c, hidden) : c.integer_or("mamba_d_ssm", 1, 1 << 20, 1024);
  ops::RecurrenceShape shape = read_mamba2(c, kMambaKeys, width);
  if (shape.value_heads * shape.value_dim != width)
    c.invalid(
        fmt::format("mamba_n_heads heads of mamba_d_head are not {} wide, as mamba_d_ssm or "
                    "mamba_expand say",
                    width));
  read_step_limit(c, json, shape);
  if (!c.boolean_or("mamba_rms_norm", false))
    shape.rule.norm = Rule::Norm::none, shape.rule.norm_group = 0;
  else if (c.boolean_or("mamba_norm_before_gate", true))
    shape.rule.norm = Rule::Norm::before_gate;
  return shape;
}

constexpr LayerForm kFalconForm{.norm2 = "pre_ff_layernorm", .recurrence = "mamba.", .mlp = "feed_forward."};

}  // namespace

void read_falcon_h1(ConfigReader& c, const Json& json, ModelSpec& spec) {
  read_sizes(c, {4096, 128000, 8192, "rms_norm_eps", 1e-5, false}, spec);
  SideBySideSpec mixer{read_attention(c, {32, 8}, spec.hidden), read_mixer(c, json, spec.hidden),
                       read_scales(c)};
  AttentionSpec& attention = mixer.attention;
  const bool bias = c.boolean_or("attention_bias", false);
  read_biases(c, bias, bias, attention);
  attention.in_scale = read_factor(c, "attention_in_multiplier");
  attention.key_scale = read_factor(c, "key_multiplier");
  attention.out_scale = read_factor(c, "attention_out_multiplier");
  MlpSpec mlp = read_mlp(c, "intermediate_size", 14336, c.boolean_or("mlp_bias", false));
  const auto factors = read_factors(c, "mlp_multipliers", 2);
  mlp.gate_scale = static_cast<float>(factors[0]), mlp.down_scale = static_cast<float>(factors[1]);
  spec.embedding_scale = read_factor(c, "embedding_multiplier");
  spec.logits_scale = read_factor(c, "lm_head_multiplier");
  const int layers = c.integer_or("num_hidden_layers", 1, 1024, 32);
  spec.layers.assign(static_cast<size_t>(layers), {mixer, mlp, spec.norms, 0, kFalconForm});
  read_rope_of_whole_heads(c, attention.head_dim, 10000, spec);
}

}  // namespace anabranch::hybrid
