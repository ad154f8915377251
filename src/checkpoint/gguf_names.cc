#include "checkpoint/gguf_names.h"

#include <charconv>
#include <span>

namespace anabranch {

namespace {

using NamePair = std::pair<std::string_view, std::string_view>;

constexpr NamePair kTop[] = {
    {"token_embd.weight", "model.embed_tokens.weight"},
    {"output_norm.weight", "model.norm.weight"},
    {"output_norm.bias", "model.norm.bias"},
    {"output.weight", "lm_head.weight"},
    {"output.bias", "lm_head.bias"},
    {"token_embd_norm.weight", "model.norm.weight"},  // LFM2
    // Gemma 4
    {"per_layer_token_embd.weight", "model.embed_tokens_per_layer.weight"},
    {"per_layer_model_proj.weight", "model.per_layer_model_projection.weight"},
    {"per_layer_proj_norm.weight", "model.per_layer_projection_norm.weight"},
};
// Within a layer: a whole name with its ".weight", or what precedes ".weight" or ".bias".
constexpr NamePair kCommon[] = {
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"attn_gate", "self_attn.g_proj"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"attn_norm", "input_layernorm"},
    // Mixtures of experts: the router, stacked matrices, the shared expert.
    {"ffn_gate_inp", "mlp.gate"},
    {"exp_probs_b.bias", "mlp.gate.e_score_correction_bias"},
    {"exp_probs_b", "mlp.gate.e_score_correction_bias"},  // older files
    {"ffn_gate_exps", "mlp.switch_mlp.gate_proj"},
    {"ffn_up_exps", "mlp.switch_mlp.up_proj"},
    {"ffn_gate_up_exps.weight", "mlp.experts.gate_up_proj"},
    {"ffn_down_exps", "mlp.switch_mlp.down_proj"},
    {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
    {"ffn_down_shexp", "mlp.shared_expert.down_proj"},
    {"ffn_gate_inp_shexp", "mlp.shared_expert_gate"},
    // Mamba2
    {"ssm_in", "mamba.in_proj"},
    {"ssm_conv1d", "mamba.conv1d"},
    {"ssm_dt.bias", "mamba.dt_bias"},
    {"ssm_a", "mamba.A_log"},
    {"ssm_d", "mamba.D"},
    {"ssm_norm", "mamba.norm"},
    {"ssm_out", "mamba.out_proj"},
};
constexpr NamePair kLlama[] = {{"ffn_norm", "post_attention_layernorm"}};
constexpr NamePair kSeedOss[] = {{"post_attention_norm", "post_attention_layernorm"},
                                 {"attn_sinks.weight", "self_attn.sinks"}};  // gpt-oss
constexpr NamePair kPhi3[] = {{"ffn_norm", "post_attention_layernorm"},
                              {"attn_qkv", "self_attn.qkv_proj"},
                              {"ffn_up", "mlp.gate_up_proj"}};
constexpr NamePair kPostNorm[] = {{"post_attention_norm", "post_attention_layernorm"},
                                  {"post_ffw_norm", "post_feedforward_layernorm"}};
constexpr NamePair kGlm4[] = {{"post_attention_norm", "post_self_attn_layernorm"},
                              {"ffn_norm", "post_attention_layernorm"},
                              {"post_ffw_norm", "post_mlp_layernorm"},
                              {"ffn_up", "mlp.gate_up_proj"}};
constexpr NamePair kStarcoder2[] = {
    {"ffn_norm", "post_attention_layernorm"}, {"ffn_up", "mlp.c_fc"}, {"ffn_down", "mlp.c_proj"}};
constexpr NamePair kApertus[] = {{"attn_norm", "attention_layernorm"}, {"ffn_norm", "feedforward_layernorm"}};
constexpr NamePair kAfmoe[] = {{"post_attention_norm", "post_attention_layernorm"},
                               {"ffn_norm", "pre_mlp_layernorm"},
                               {"post_ffw_norm", "post_mlp_layernorm"}};
constexpr NamePair kPhi2[] = {{"attn_qkv", "self_attn.qkv_proj"},
                              {"attn_output", "self_attn.dense"},
                              {"ffn_up", "mlp.fc1"},
                              {"ffn_down", "mlp.fc2"}};
constexpr NamePair kGptNeox[] = {{"ffn_norm", "post_attention_layernorm"},
                                 {"attn_qkv", "self_attn.qkv_proj"},
                                 {"ffn_up", "mlp.dense_h_to_4h"},
                                 {"ffn_down", "mlp.dense_4h_to_h"}};
constexpr NamePair kDeepseek2[] = {{"ffn_norm", "post_attention_layernorm"},
                                   {"attn_q_a", "self_attn.q_a_proj"},
                                   {"attn_q_a_norm", "self_attn.q_a_layernorm"},
                                   {"attn_q_b", "self_attn.q_b_proj"},
                                   {"attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa"},
                                   {"attn_kv_a_norm", "self_attn.kv_a_layernorm"},
                                   {"attn_kv_b", "self_attn.kv_b_proj"},
                                   {"attn_k_b", "self_attn.embed_q"},
                                   {"attn_v_b", "self_attn.unembed_out"}};
constexpr NamePair kHunyuan[] = {{"ffn_norm", "post_attention_layernorm"},
                                 {"attn_q_norm", "self_attn.query_layernorm"},
                                 {"attn_k_norm", "self_attn.key_layernorm"}};
constexpr NamePair kLfm2[] = {
    {"attn_norm", "operator_norm"},
    {"attn_q_norm", "self_attn.q_layernorm"},
    {"attn_k_norm", "self_attn.k_layernorm"},
    {"attn_output", "self_attn.out_proj"},
    {"ffn_gate", "feed_forward.w1"},
    {"ffn_up", "feed_forward.w3"},
    {"ffn_down", "feed_forward.w2"},
    {"shortconv.in_proj", "conv.in_proj"},
    {"shortconv.conv", "conv.conv"},
    {"shortconv.out_proj", "conv.out_proj"},
    {"ffn_norm", "ffn_norm"},
};
constexpr NamePair kGraniteH[] = {
    {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.shared_expert.gate_proj"},
    {"ffn_up", "mlp.shared_expert.up_proj"},
    {"ffn_down", "mlp.shared_expert.down_proj"},
};
constexpr NamePair kFalconH1[] = {
    {"ffn_norm.weight", "pre_ff_layernorm.weight"},
    {"ffn_norm", "pre_ff_layernorm.weight"},  // as llama.cpp writes it
    {"ffn_gate", "feed_forward.gate_proj"},
    {"ffn_up", "feed_forward.up_proj"},
    {"ffn_down", "feed_forward.down_proj"},
};
constexpr NamePair kNemotronH[] = {
    {"attn_norm", "norm"},
    {"attn_q", "mixer.q_proj"},
    {"attn_k", "mixer.k_proj"},
    {"attn_v", "mixer.v_proj"},
    {"attn_output", "mixer.o_proj"},
    {"ffn_up", "mixer.up_proj"},
    {"ffn_down", "mixer.down_proj"},
    {"ssm_in", "mixer.in_proj"},
    {"ssm_conv1d", "mixer.conv1d"},
    {"ssm_dt.bias", "mixer.dt_bias"},
    {"ssm_a", "mixer.A_log"},
    {"ssm_d", "mixer.D"},
    {"ssm_norm", "mixer.norm"},
    {"ssm_out", "mixer.out_proj"},
    {"ffn_latent_down", "mlp.fc1_latent_proj"},
    {"ffn_latent_up", "mlp.fc2_latent_proj"},
};
constexpr NamePair kGemma[] = {
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
    // Gemma 4
    {"layer_output_scale.weight", "layer_scalar"},
    {"inp_gate", "per_layer_input_gate"},
    {"proj", "per_layer_projection"},
    {"post_norm", "post_per_layer_input_norm"},
    {"post_ffw_norm_1", "post_feedforward_layernorm_1"},
    {"pre_ffw_norm_2", "pre_feedforward_layernorm_2"},
    {"post_ffw_norm_2", "post_feedforward_layernorm_2"},
    {"ffn_gate_inp.weight", "router.proj.weight"},
    {"ffn_gate_inp.scale", "router.scale"},
    {"ffn_down_exps.scale", "router.per_expert_scale"},
    // Gemma 4 of Ollama
    {"ffn_gate_inp.per_expert_scale", "router.per_expert_scale"},
    {"layer_scalar", "layer_scalar"},
    {"attn_post_norm", "post_attention_layernorm"},
    {"ffn_pre_norm", "pre_feedforward_layernorm"},
    {"ffn_post_norm", "post_feedforward_layernorm"},
    {"ffn_post_norm_1", "post_feedforward_layernorm_1"},
    {"ffn_pre_norm_2", "pre_feedforward_layernorm_2"},
    {"ffn_post_norm_2", "post_feedforward_layernorm_2"},
};
constexpr NamePair kHybrid[] = {
    {"post_attention_norm", "post_attention_layernorm"},
    {"attn_qkv", "linear_attn.in_proj_qkv"},
    {"attn_gate", "linear_attn.in_proj_z"},
    {"ssm_beta", "linear_attn.in_proj_b"},
    {"ssm_alpha", "linear_attn.in_proj_a"},
    {"ssm_conv1d", "linear_attn.conv1d"},
    {"ssm_norm", "linear_attn.norm"},
    {"ssm_out", "linear_attn.out_proj"},
    {"ssm_a", "linear_attn.A_log"},
    {"ssm_dt.bias", "linear_attn.dt_bias"},
    {"ssm_dt", "linear_attn.dt_bias"},  // Ollama
    // Qwen3-Next
    {"ssm_ba", "linear_attn.in_proj_ba"},
    {"ssm_in", "linear_attn.in_proj_qkvz"},
};
constexpr NamePair kMtp[] = {
    {"nextn.eh_proj", "mtp.fc"},
    {"nextn.enorm", "mtp.pre_fc_norm_embedding"},
    {"nextn.hnorm", "mtp.pre_fc_norm_hidden"},
    {"nextn.shared_head_norm", "mtp.norm"},
    {"nextn.embed_tokens", "mtp.embed_tokens"},
    {"nextn.shared_head_head", "mtp.lm_head"},
};

std::string_view lookup(std::span<const NamePair> table, std::string_view key) {
  for (const auto& [from, to] : table)
    if (from == key) return to;
  return {};
}

// The whole name, or the name before the suffix with that suffix; empty if it is not in the table.
std::string lookup_part(std::span<const NamePair> table, std::string_view part) {
  if (const auto whole = lookup(table, part); !whole.empty()) return std::string(whole);
  const size_t dot = part.rfind('.');
  if (dot == std::string_view::npos) return "";
  const auto name = lookup(table, part.substr(0, dot));
  return name.empty() ? "" : std::string(name).append(part.substr(dot));
}

std::span<const NamePair> arch_names(GgufArch arch) {
  if (is_hybrid(arch)) return kHybrid;
  if (is_gemma(arch)) return kGemma;
  switch (arch) {
    case GgufArch::seed_oss:
      return kSeedOss;
    case GgufArch::phi3:
      return kPhi3;
    case GgufArch::post_norm:
      return kPostNorm;
    case GgufArch::glm4:
      return kGlm4;
    case GgufArch::starcoder2:
      return kStarcoder2;
    case GgufArch::hunyuan:
      return kHunyuan;
    case GgufArch::lfm2:
      return kLfm2;
    case GgufArch::granite_h:
      return kGraniteH;
    case GgufArch::nemotron_h:
      return kNemotronH;
    case GgufArch::falcon_h1:
      return kFalconH1;
    case GgufArch::deepseek2:
      return kDeepseek2;
    case GgufArch::apertus:
      return kApertus;
    case GgufArch::afmoe:
      return kAfmoe;
    case GgufArch::phi2:
      return kPhi2;
    case GgufArch::gptneox:
      return kGptNeox;
    default:
      return kLlama;
  }
}

// Ollama's names of the MTP module. Within a layer, the names are those of the trunk's layers.
std::string mtp_name(const GgufConfig& config, const std::string& name) {
  constexpr std::string_view kLayers = "mtp.layers.";
  constexpr NamePair kOwn[] = {{"mtp.shared_head.norm.weight", "mtp.norm.weight"},
                               {"mtp.shared_head.head.weight", "mtp.lm_head.weight"}};
  if (const auto own = lookup(kOwn, name); !own.empty()) return std::string(own);
  const size_t dot = name.find('.', kLayers.size());
  if (!name.starts_with(kLayers) || dot == std::string::npos) return name;
  for (const auto table : {arch_names(config.arch), std::span<const NamePair>(kCommon)})
    if (const std::string part = lookup_part(table, std::string_view(name).substr(dot + 1)); !part.empty())
      return name.substr(0, dot + 1) + part;
  return name;
}

// The key of a value: the inverse of lookup() and lookup_part(). The first of several keys counts.
std::string reverse_lookup(std::span<const NamePair> table, std::string_view name) {
  const auto key_of = [&](std::string_view value) -> std::string_view {
    for (const auto& [from, to] : table)
      if (to == value) return from;
    return {};
  };
  if (const auto whole = key_of(name); !whole.empty()) return std::string(whole);
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return "";
  const auto key = key_of(name.substr(0, dot));
  return key.empty() ? "" : std::string(key).append(name.substr(dot));
}

// "<prefix>12.self_attn.q_proj.weight" -> 12, "self_attn.q_proj.weight"
std::optional<std::pair<int64_t, std::string_view>> split_numbered(std::string_view name,
                                                                   std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  int64_t number = 0;
  const auto end = std::from_chars(name.data(), name.data() + name.size(), number);
  const auto digits = static_cast<size_t>(end.ptr - name.data());
  if (end.ec != std::errc() || digits == 0 || digits >= name.size() || name[digits] != '.' || number < 0)
    return std::nullopt;
  return std::pair(number, name.substr(digits + 1));
}

}  // namespace

std::optional<std::pair<int64_t, std::string_view>> split_gguf_layer(std::string_view name) {
  return split_numbered(name, "blk.");
}

std::string hf_name(const GgufConfig& config, const std::string& gguf_name) {
  if (const auto name = lookup(kTop, gguf_name); !name.empty()) return std::string(name);
  if (gguf_name.starts_with("mtp.")) return mtp_name(config, gguf_name);
  const auto layer = split_gguf_layer(gguf_name);
  if (!layer) return gguf_name;
  const std::string_view part = layer->second;
  const bool mtp = layer->first >= config.layers;
  const std::string module = mtp ? "mtp.layers." + std::to_string(layer->first - config.layers) + "."
                                 : "model.layers." + std::to_string(layer->first) + ".";
  const bool first_mtp = layer->first == config.layers;  // the head that can be run has one layer
  if (std::string name = first_mtp ? lookup_part(kMtp, part) : ""; !name.empty()) return name;
  const std::string unknown = mtp ? module + std::string(part) : gguf_name;
  for (const auto table : {arch_names(config.arch), std::span<const NamePair>(kCommon)})
    if (const std::string name = lookup_part(table, part); !name.empty()) return module + name;
  // Older files: "ffn_up.3.weight".
  const size_t first = part.find('.'), last = part.rfind('.');
  if (first == last) return unknown;
  const auto matrix = lookup(kCommon, part.substr(0, first));
  if (!matrix.starts_with("mlp.")) return unknown;
  return fmt::format("{}mlp.experts.{}.{}{}", module, part.substr(first + 1, last - first - 1),
                     matrix.substr(4), part.substr(last));
}

std::string gguf_name(GgufArch arch, int64_t layers, std::string_view hf_name) {
  if (const auto name = reverse_lookup(kTop, hf_name); !name.empty()) return name;
  auto layer = split_numbered(hf_name, "model.layers.");
  if (!layer && (layer = split_numbered(hf_name, "mtp.layers."))) layer->first += layers;
  if (!layer) {
    const auto part = reverse_lookup(kMtp, hf_name);
    return part.empty() || !is_hybrid(arch) ? "" : fmt::format("blk.{}.{}", layers, part);
  }
  for (const auto table : {arch_names(arch), std::span<const NamePair>(kCommon)})
    if (const auto part = reverse_lookup(table, layer->second); !part.empty())
      return fmt::format("blk.{}.{}", layer->first, part);
  return "";
}

}  // namespace anabranch
