// Fields of config classes in Transformers 5.24: what they do to what is computed.
#pragma once

#include <gtest/gtest.h>

#include <sstream>

#include "models/family.h"

namespace anabranch {

enum class Use { read, refused, no_matter };

struct Field {
  const char* name;
  Json other;
  Use use = Use::read;
};
using Fields = std::vector<Field>;

// What a model with this description computes.
struct Description {
  std::ostringstream out;

  template <class... Values>
  void add(const Values&... values) {
    ((out << values << ' '), ...);
  }
  void mixer(const AttentionSpec& a) {
    add("attention", a.heads, a.kv_heads, a.head_dim, a.window, a.qkv_bias, a.out_bias, a.qk_norm,
        a.norms_all_heads, a.norms_after_rope, a.neighbours_turn, a.output_gate, a.scale, a.soft_cap,
        a.v_norm, a.keys_are_values, a.kv_layer, a.sinks, a.in_scale, a.key_scale, a.out_scale, a.value_dim,
        a.norms_weigh);
    if (a.gate) add("gate", a.gate->of_heads, static_cast<int>(a.gate->curve));
  }
  void mixer(const LatentAttentionSpec& a) {
    add("latent", a.heads, a.query_rank, a.rank, a.plain_dim, a.turned_dim, a.value_dim, a.bias,
        a.neighbours_turn, a.head_gate, a.scale);
  }
  void mixer(const IndexedAttentionSpec& a) {
    mixer(a.attention);
    add("index", a.heads, a.dim, a.ratio, a.blocks);
  }
  void mixer(const ops::RecurrenceShape& d) {
    const ops::RecurrenceRule& r = d.rule;
    add("recurrence", d.key_heads, d.value_heads, d.key_dim, d.value_dim, d.conv_kernel, d.sigmoid_gate,
        d.channels, r.delta, static_cast<int>(r.beta), static_cast<int>(r.decay), static_cast<int>(r.norm),
        r.norm_group, r.step_min, r.step_max, r.conv_bias, r.skip, r.key_decay, r.unit_keys, r.bound);
  }
  void mixer(const SideBySideSpec& both) {
    mixer(both.attention), mixer(both.recurrence);
    const RecurrenceScales& s = both.scales;
    add(s.in, s.z, s.values, s.keys, s.queries, s.a, s.out);
  }
  void mixer(std::monostate) { add("none"); }
  void mlp(std::monostate) { add("none"); }
  void clamped(const std::optional<ops::ClampedGlu>& how) {
    if (how)
      add("clamped", how->alpha, how->limit, how->silu_first);
    else
      add("unclamped");
  }
  void mlp(const MlpSpec& m) {
    add("mlp", m.intermediate, static_cast<int>(m.activation), m.bias, m.gated, static_cast<int>(m.gelu),
        m.relu2, m.gate_scale, m.down_scale, m.xielu.has_value(), m.xielu_in_files);
    if (m.xielu) add(m.xielu->positive, m.xielu->negative, m.xielu->linear, m.xielu->near);
    clamped(m.clamped);
  }
  void mlp(const MoeSpec& m) {
    const ops::RouterSpec& r = m.routing;
    add("moe", m.experts, m.intermediate, m.shared_intermediate, m.shared_gate, m.choice_bias, m.gated,
        m.latent, m.bias, r.top_k, static_cast<int>(r.scores), r.normalise, r.scale, r.least_sum, r.added_sum,
        r.groups, r.top_groups, r.best_of_group, r.tolerance, static_cast<int>(m.activation), m.expert_bias,
        m.shared_scale, r.soft_cap);
    clamped(m.clamped), clamped(m.shared_clamped);
  }
  void mlp(const MlpAndMoeSpec& both) { mlp(both.mlp), mlp(both.moe); }
  void ngrams(const NGramSpec& n) {
    add("n-grams", n.tables.longest, n.tables.end, n.rows, n.width);
    for (const int64_t size : n.tables.sizes) add(size);
    for (const int64_t multiplier : n.tables.multipliers) add(multiplier);
    mixer(n.tokens), mixer(n.convolution);
  }
  void rope(const ops::Rope& r) {
    add("rope", r.attention_factor, r.far_from, r.far_theta, r.far_factor, r.query_beta, r.query_period);
    for (const auto* list : {&r.inv_freq, &r.far_inv_freq})
      for (const float v : *list) add(v);
    for (const auto axis : r.axis) add(static_cast<int>(axis));
  }
};

inline std::string describe(const ModelSpec& spec) {
  Description d;
  d.add(spec.hidden, spec.vocab, spec.context_length, spec.norms.eps, spec.norms.offset, spec.tied_embeddings,
        spec.embedding_scale, spec.logits_scale, spec.logits_soft_cap, spec.per_layer_width,
        spec.per_layer_vocab, spec.normed_embedding, spec.streams.count, spec.streams.rank,
        spec.embedding_norm_eps);
  for (const LayerSpec& layer : spec.layers) {
    std::visit([&](const auto& mixer) { d.mixer(mixer); }, layer.mixer);
    std::visit([&](const auto& mlp) { d.mlp(mlp); }, layer.mlp);
    d.add(layer.norms.eps, layer.norms.post_eps, layer.norms.offset, layer.norms.layer_norm, layer.norms.bias,
          layer.norms.weightless, layer.rope, layer.residual_scale, layer.form.parallel,
          layer.form.post1 != nullptr, layer.form.post2 != nullptr, layer.form.norm2 != nullptr,
          layer.decay_factor);
    if (layer.ngrams) d.ngrams(*layer.ngrams);
    if (const auto& r = layer.normed_residual)
      d.add("normed", r->mixer_input, r->mixer_output, r->mlp_input, r->mlp_output);
  }
  for (const auto& rope : spec.ropes) d.rope(rope);
  return d.out.str();
}

inline Result<ModelSpec> read(const Json& config) {
  const std::string type = text_type_of(config);
  if (type.starts_with("qwen4_exp")) return read_qwen4_exp_config(config, "config.json");
  if ((type.starts_with("gemma") && type != "gemma") || type == "vaultgemma")
    return read_gemma_config(config, "config.json");
  if (is_hybrid_member(type)) return read_hybrid_config(config, "config.json");
  if (is_latent_member(type)) return read_latent_config(config, "config.json");
  if (is_llama_member(type)) return read_llama_config(config, "config.json");
  return read_qwen3_5_config(config, "config.json");
}

inline void expect_use(const Json& config, const Field& field) {
  const std::string what = config["model_type"].get<std::string>() + ": " + field.name;
  const auto usual = read(config);
  ASSERT_TRUE(usual.ok()) << what << ": " << usual.error().message;
  Json other = config;
  other[field.name] = field.other;
  const auto spec = read(other);
  if (field.use == Use::refused) {
    ASSERT_FALSE(spec.ok()) << what;
    EXPECT_NE(spec.error().message.find(field.name), std::string::npos) << spec.error().message;
    return;
  }
  ASSERT_TRUE(spec.ok()) << what << ": " << spec.error().message;
  EXPECT_EQ(describe(*spec) == describe(*usual), field.use == Use::no_matter) << what;
}

inline Json joined(Json a, const Json& b) {
  a.update(b);
  return a;
}
inline Fields operator+(Fields a, const Fields& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline Json base(const char* type, const Json& more = Json::object()) {
  return joined({{"model_type", type},
                 {"vocab_size", 100},
                 {"hidden_size", 64},
                 {"intermediate_size", 96},
                 {"num_hidden_layers", 6},
                 {"num_attention_heads", 4},
                 {"num_key_value_heads", 2},
                 {"head_dim", 16},
                 {"max_position_embeddings", 512},
                 {"rms_norm_eps", 1e-5},
                 {"tie_word_embeddings", true},
                 {"rope_theta", 10000.0}},
                more);
}

inline const Json kYarn = {{"rope_type", "yarn"},
                           {"factor", 2.0},
                           {"rope_theta", 5000.0},
                           {"original_max_position_embeddings", 256}};

inline Fields common(const char* activation, const Json& rope = kYarn) {
  return {{"vocab_size", 101},
          {"hidden_size", 80},
          {"num_hidden_layers", 5},
          {"num_attention_heads", 8},
          {"num_key_value_heads", 4},
          {activation, "relu", Use::refused},
          {"max_position_embeddings", 600},
          {"initializer_range", 0.5, Use::no_matter},
          {"rms_norm_eps", 1e-3},
          {"use_cache", false, Use::no_matter},
          {"tie_word_embeddings", false},
          {"rope_parameters", rope},
          {"attention_dropout", 0.5, Use::no_matter},
          {"pad_token_id", 3, Use::no_matter},
          {"bos_token_id", 3, Use::no_matter},
          {"eos_token_id", 3, Use::no_matter}};
}
inline const Fields kDense = {{"intermediate_size", 64}}, kHeadDim = {{"head_dim", 32}};
inline const Fields kRouter = {{"num_experts_per_tok", 1},
                               {"output_router_logits", true, Use::no_matter},
                               {"router_aux_loss_coef", 0.5, Use::no_matter}};
inline const Json kMixture = {{"num_experts", 4}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 24}};
inline const Fields kNarrow = {{"num_experts", 8}, {"moe_intermediate_size", 48}};

inline std::vector<std::string> kinds(const char* kind) {
  return std::vector<std::string>(6, kind);
}

// The fields of a family that the others do not have, or have with another meaning.
struct MemberFields {
  const char* type;
  Json more;
  Fields fields;
};

}  // namespace anabranch
