// Settings of single members of the Llama family in GGUF metadata.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "checkpoint/gguf_config.h"

namespace anabranch {

namespace {

// The least number whose product with head_dim, cut to an integer, is the number of turned dimensions.
double exact_share(double turned, double head_dim) {
  double part = turned / head_dim;
  while (std::floor(head_dim * part) < turned) part = std::nextafter(part, 2.0);
  return part;
}

// The ropes of layers without windows and of those with them, which nothing scales.
Result<void> add_ropes_by_kind(const GgufMetadata& m, GgufConfig& out) {
  Json& c = out.config;
  const auto head_dim = c["head_dim"].get<int64_t>();
  Json full = c.value("rope_scaling", Json{{"rope_type", "default"}}), windowed = {{"rope_type", "default"}};
  full["rope_theta"] = c["rope_theta"];
  TRY(windowed["rope_theta"], m.real("rope.freq_base_swa", c["rope_theta"].get<double>()));
  TRY(const int64_t turned, m.integer("rope.dimension_count", 1, head_dim));
  TRY(const int64_t turned_windowed, m.integer("rope.dimension_count_swa", 1, head_dim));
  if (turned < head_dim) full["partial_rotary_factor"] = exact_share(double(turned), double(head_dim));
  if (turned_windowed < head_dim)
    windowed["partial_rotary_factor"] = exact_share(double(turned_windowed), double(head_dim));
  for (const char* key : {"rope_scaling", "rope_theta", "partial_rotary_factor"}) c.erase(key);
  c["rope_parameters"] = {{"full_attention", std::move(full)}, {"sliding_attention", std::move(windowed)}};
  return {};
}

// Whether the gate of the attention's output has a number for each value or for each head (Laguna).
void add_gating(const GgufMetadata& m, GgufConfig& out) {
  const GgufTensor* gate = m.tensor("blk.0.attn_gate.weight");
  const GgufTensor* queries = m.tensor("blk.0.attn_q.weight");
  const bool of_values = gate && queries && !gate->shape.empty() && gate->shape == queries->shape;
  out.config["gating"] = of_values ? "per-element" : "per-head";
}

// "sliding_window", and "layer_types" if there is a period. OLMo 3 is an OLMo 2 with windows, in which what
// scales a rope is only for the layers without one.
Result<void> add_windows(const GgufMetadata& m, const GgufMember& member, GgufConfig& out) {
  Json& c = out.config;
  TRY(const int64_t window, m.integer("attention.sliding_window", 0, 0));
  if (window == 0) return {};
  c["sliding_window"] = window;
  if (member.period == 0) return {};
  constexpr const char* kPattern = "attention.sliding_window_pattern";
  TRY(const auto listed, m.flags(kPattern, out.layers));
  int64_t period = member.period;
  if (listed.empty()) {
    TRY(period, m.integer(kPattern, 1, period));
  }
  Json types = Json::array();
  for (int64_t i = 0; i < out.layers; i++) {
    const bool windowed =
        listed.empty() ? (member.full_first ? i : i + 1) % period != 0 : listed[static_cast<size_t>(i)];
    types.push_back(windowed ? "sliding_attention" : "full_attention");
  }
  c["layer_types"] = std::move(types);
  if (c["model_type"] != "olmo2") return {};
  c["model_type"] = "olmo3", c["architectures"] = Json::array({"Olmo3ForCausalLM"});
  return add_ropes_by_kind(m, out);
}

// A rope's divisors for near and far positions.
Result<void> add_longrope(const GgufMetadata& m, GgufConfig& out) {
  if (!m.tensor(kNearRopeFactors) && !m.tensor(kFarRopeFactors)) return {};
  Json& c = out.config;
  TRY(const int64_t turned, m.integer("rope.dimension_count", 2, c["head_dim"].get<int64_t>()));
  TRY(const auto near, m.positive_vector(kNearRopeFactors, turned / 2));
  TRY(const auto far, m.positive_vector(kFarRopeFactors, turned / 2));
  TRY(const double factor, m.real("rope.scaling.attn_factor", 1));
  TRY(const int64_t original,
      m.integer("rope.scaling.original_context_length", 1, c["max_position_embeddings"].get<int64_t>()));
  c["rope_scaling"] = {
      {"rope_type", "longrope"}, {"short_factor", near}, {"long_factor", far}, {"attention_factor", factor}};
  c["original_max_position_embeddings"] = original;
  return {};
}

Result<void> add_multipliers(const GgufMetadata& m, GgufConfig& out) {
  Json& c = out.config;
  struct Factor {
    const char *gguf, *config;
    double fallback;
  };
  const double usual = 1 / std::sqrt(c["head_dim"].get<double>());
  for (const auto& [gguf, config, fallback] :
       {Factor{"attention.scale", "attention_multiplier", usual},
        Factor{"embedding_scale", "embedding_multiplier", 1},
        Factor{"residual_scale", "residual_multiplier", 1}, Factor{"logit_scale", "logits_scaling", 1}}) {
    TRY(c[config], m.real(gguf, fallback));
  }
  return {};
}

// The factors of xIELU of each layer, which in other files are tensors.
Result<void> add_xielu(const GgufMetadata& m, GgufConfig& out) {
  struct Factor {
    const char *gguf, *config;
  };
  for (const auto& [gguf, config] :
       {Factor{"xielu.alpha_p", "xielu_alpha_p"}, Factor{"xielu.alpha_n", "xielu_alpha_n"},
        Factor{"xielu.beta", "xielu_beta"}, Factor{"xielu.eps", "xielu_eps"}}) {
    const Json* values = m.find_whole(gguf);
    if (!values) return make_error(ErrorKind::invalid, "{}: metadata \"{}\" is missing", m.path(), gguf);
    // One number is that of all layers.
    out.config[config] =
        values->is_array() ? *values : Json(Json::array_t(static_cast<size_t>(out.layers), *values));
  }
  return {};
}

// The size of this dimension of the first layer's tensor of this name; 0: no layer has it.
int64_t size_in_any_layer(const GgufMetadata& m, const GgufConfig& out, const char* part, size_t dimension) {
  for (int64_t i = 0; i < out.layers; i++)
    if (const GgufTensor* tensor = m.tensor(fmt::format("blk.{}.{}", i, part)))
      return tensor->shape.size() > dimension ? tensor->shape[dimension] : 0;
  return 0;
}

}  // namespace

Result<void> add_gguf_experts(const GgufMetadata& m, const GgufMoe& moe, bool normalises, GgufConfig& out) {
  Json& c = out.config;
  const Json top_k = c["num_experts_per_tok"];
  c.erase("num_experts_per_tok");
  c[moe.top_k] = top_k;
  c[moe.experts] = out.experts;
  const int64_t rows = size_in_any_layer(m, out, "ffn_up_exps.weight", 1),
                shared_rows = size_in_any_layer(m, out, "ffn_up_shexp.weight", 0);
  TRY(const int64_t width,
      m.integer("expert_feed_forward_length", 1, rows > 0 ? std::optional(rows) : std::nullopt));
  c[moe.width] = width;
  TRY(c["norm_topk_prob"], m.flag("expert_weights_norm", normalises));
  if (moe.shared_width) c[moe.shared_width] = shared_rows;
  if (moe.shared_count) c[moe.shared_count] = shared_rows / width;
  if ((moe.shared_count && shared_rows % width != 0) ||
      (moe.width == std::string_view("intermediate_size") && !moe.shared_width && shared_rows != 0 &&
       shared_rows != width))
    return make_error(ErrorKind::unsupported, "{}: a shared expert of {} beside experts of {}", m.path(),
                      shared_rows, width);
  c["use_qk_norm"] = m.tensor("blk.0.attn_q_norm.weight") != nullptr;
  if (moe.dense) {
    TRY(c[moe.dense], m.integer("leading_dense_block_count", 0, 0));
  }
  if (moe.step) {
    TRY(c[moe.step], m.integer("interleave_moe_layer_step", 1, 1));
  }
  if (moe.sigmoid) {
    TRY(const int64_t scores, m.integer("expert_gating_func", 0, 2));
    if (scores != 0 && scores != 2)
      return make_error(ErrorKind::unsupported, "{}: {} of another router (expert_gating_func {})", m.path(),
                        c["model_type"].dump(), scores);
  }
  if (moe.listed) {
    Json types = Json::array();
    for (int64_t i = 0; i < out.layers; i++)
      types.push_back(m.tensor(fmt::format("blk.{}.ffn_gate_inp.weight", i)) ? "sparse" : "dense");
    c["mlp_layer_types"] = std::move(types);
  }
  if (!moe.deep) return {};
  TRY(c[moe.scale], m.real("expert_weights_scale", 1));
  TRY(const int64_t groups, m.integer("expert_group_count", 0, 1));
  TRY(const int64_t used_groups, m.integer("expert_group_used_count", 0, 1));
  c["n_group"] = std::max<int64_t>(1, groups);
  c["topk_group"] = std::max<int64_t>(1, used_groups);
  return {};
}

Result<void> add_gguf_member(const GgufMetadata& m, const GgufMember& member, GgufConfig& out) {
  Json& c = out.config;
  if (member.windows) TRY_VOID(add_windows(m, member, out));
  if (member.by_kind) TRY_VOID(add_ropes_by_kind(m, out));
  if (member.gated) add_gating(m, out);
  if (member.needs_multipliers)
    for (const char* key : {"embedding_scale", "residual_scale", "logit_scale"})
      if (!m.find(key))
        return make_error(ErrorKind::unsupported,
                          "{}: metadata \"{}\" is missing; it is in files of newer converters", m.path(),
                          key);
  if (member.multipliers) TRY_VOID(add_multipliers(m, out));
  if (member.logit_scale) {
    TRY(c["logit_scale"], m.real("logit_scale", 1));
    c["use_qk_norm"] = m.tensor("blk.0.attn_q_norm.weight") != nullptr;
  }
  if (member.yarn) {
    Json& scaling = c["rope_scaling"];
    if (!scaling.is_object()) scaling = {{"rope_type", "default"}};
    scaling["truncate"] = false;
  }
  if (member.scaled_embedding) c["mup_enabled"] = true;
  if (member.xielu) TRY_VOID(add_xielu(m, out));
  // A config that states no rope means a scaled one.
  if (member.xielu && !c.contains("rope_scaling")) c["rope_scaling"] = {{"rope_type", "default"}};
  if (member.neox_keys) {
    c["rotary_emb_base"] = c["rope_theta"];
    TRY(c["use_parallel_residual"], m.flag("use_parallel_residual", true));
  }
  if (!member.partial) {
    for (const char* name : {kNearRopeFactors, kFarRopeFactors})
      if (m.tensor(name))
        return make_error(ErrorKind::unsupported, "{}: \"{}\" cannot be run in {}", m.path(), name,
                          c["model_type"].dump());
    return {};
  }
  const auto head_dim = c["head_dim"].get<double>();
  const double part = exact_share(std::round(c.value("partial_rotary_factor", 1.0) * head_dim), head_dim);
  c["partial_rotary_factor"] = part;
  if (member.neox_keys) c["rotary_pct"] = part;
  return add_longrope(m, out);
}

}  // namespace anabranch
