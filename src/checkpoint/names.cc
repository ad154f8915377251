#include "checkpoint/names.h"

#include <charconv>

namespace anabranch {

namespace {

bool strip(std::string_view& name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return false;
  name.remove_prefix(prefix.size());
  return true;
}

struct Names {
  std::string_view own, common;
};

// Parts of mixtures of experts, of which the first that a name has gets the other families' name. A name may
// end with a module, so the last dot is that of the name with one more at its end.
constexpr Names kMoeNames[] = {
    // Granite
    {".block_sparse_moe.input_linear.weight.", ".mlp.experts.gate_up_proj."},
    {".block_sparse_moe.output_linear.weight.", ".mlp.experts.down_proj."},
    {".block_sparse_moe.router.layer.", ".mlp.gate."},
    {".block_sparse_moe.router.", ".mlp.gate."},
    {".shared_mlp.input_linear.", ".mlp.shared_expert.gate_up_proj."},
    {".shared_mlp.output_linear.", ".mlp.shared_expert.down_proj."},
    // MiniMax, Mixtral, Phi
    {".block_sparse_moe.e_score_correction_bias.", ".mlp.gate.e_score_correction_bias."},
    {".block_sparse_moe.shared_experts.", ".mlp.shared_expert."},
    {".block_sparse_moe.", ".mlp."},
    // Hy3, Laguna
    {".mlp.router.gate.", ".mlp.gate."},
    {".mlp.router.expert_bias.", ".mlp.gate.e_score_correction_bias."},
    {".mlp.expert_bias.", ".mlp.gate.e_score_correction_bias."},
    {".mlp.experts.e_score_correction_bias.", ".mlp.gate.e_score_correction_bias."},
    // Step, and in MLX's files
    {".mlp.gate.gate.", ".mlp.gate."},
    {".mlp.gate.router_bias.", ".mlp.gate.e_score_correction_bias."},
    {".mlp.share_expert.", ".mlp.shared_expert."},
    {".moe.gate.", ".mlp.gate."},
    {".moe.router_bias.", ".mlp.gate.e_score_correction_bias."},
    {".moe.", ".mlp.switch_mlp."},
    {".share_expert.", ".mlp.shared_expert."},
    {".mlp.router.", ".mlp.gate."},
    // EXAONE, Ernie, Hunyuan, DeepSeek and GLM
    {".mlp.e_score_correction_bias.", ".mlp.gate.e_score_correction_bias."},
    {".mlp.moe_statics.", ".mlp.gate."},
    {".mlp.gate.moe_statics.", ".mlp.gate."},
    {".mlp.gate.wg.", ".mlp.gate."},
    {".mlp.gate.expert_bias.", ".mlp.gate.e_score_correction_bias."},
    {".mlp.shared_mlp.", ".mlp.shared_expert."},
    {".mlp.shared_experts.", ".mlp.shared_expert."},
    // MLX's stacks of gpt-oss have the name of a single expert's module.
    {".mlp.experts.gate_proj.", ".mlp.switch_mlp.gate_proj."},
    {".mlp.experts.up_proj.weight.", ".mlp.switch_mlp.up_proj.weight."},
    {".mlp.experts.up_proj.bias.", ".mlp.switch_mlp.up_proj.bias."},
    {".mlp.experts.down_proj.weight.", ".mlp.switch_mlp.down_proj.weight."},
    {".mlp.experts.down_proj.bias.", ".mlp.switch_mlp.down_proj.bias."},
    {".mlp.experts.", ".mlp.experts."},
    // LFM2
    {".feed_forward.expert_bias.", ".mlp.gate.e_score_correction_bias."},
    {".feed_forward.gate.", ".mlp.gate."},
    {".feed_forward.experts.", ".mlp.experts."},
    {".feed_forward.switch_mlp.", ".mlp.switch_mlp."},
    // Nemotron-H
    {".mixer.gate.", ".mlp.gate."},
    {".mixer.experts.", ".mlp.experts."},
    {".mixer.switch_mlp.fc1.", ".mlp.switch_mlp.up_proj."},
    {".mixer.switch_mlp.fc2.", ".mlp.switch_mlp.down_proj."},
    {".mixer.shared_experts.", ".mlp.shared_expert."},
    {".mixer.fc1_latent_proj.", ".mlp.fc1_latent_proj."},
    {".mixer.fc2_latent_proj.", ".mlp.fc2_latent_proj."},
    // Gemma 4, whose experts are beside its MLP; MLX calls them switch_glu.
    {".experts.switch_glu.", ".mlp.switch_mlp."},
    {".experts.", ".mlp.experts."},
};

std::string common_moe_name(std::string name) {
  name.push_back('.');
  for (const auto& [own, common] : kMoeNames) {
    const size_t at = name.find(own);
    if (at == std::string::npos) continue;
    name.replace(at, own.size(), common);
    break;
  }
  name.pop_back();
  return name;
}

// "model.layers." and the name of a part of a layer of EXAONE 3, which has GPT-2's names.
std::string exaone_name(std::string_view rest) {
  std::string name = "layers." + std::string(rest);
  for (const auto& [own, common] : {Names{".attn.attention.out_proj.", ".self_attn.o_proj."},
                                    {".attn.attention.", ".self_attn."},
                                    {".ln_1.", ".input_layernorm."},
                                    {".ln_2.", ".post_attention_layernorm."},
                                    {".mlp.c_fc_0.", ".mlp.gate_proj."},
                                    {".mlp.c_fc_1.", ".mlp.up_proj."},
                                    {".mlp.c_proj.", ".mlp.down_proj."}})
    if (const size_t at = name.find(own); at != std::string::npos) name.replace(at, own.size(), common);
  return name;
}

// The final norm and the embedding of Nemotron-H, LFM2, Bamba, Ling, Phi and GPT-NeoX, norms in OLMo Hybrid's
// layers, the attention of Ling and GPT-NeoX, the gate of LFM3's and Muse Glimmer's, and the sinks of MiMo's.
std::string common_name(std::string_view rest) {
  if (strip(rest, "h.")) return exaone_name(rest);
  for (const auto& [own, common] : {Names{"embeddings.", "embed_tokens."},
                                    {"word_embeddings.", "embed_tokens."},
                                    {"embed_in.", "embed_tokens."},
                                    {"wte.", "embed_tokens."},
                                    {"ln_f.", "norm."},
                                    {"norm_f.", "norm."},
                                    {"embedding_norm.", "norm."},
                                    {"final_layernorm.", "norm."},
                                    {"final_layer_norm.", "norm."}})
    if (strip(rest, own)) return std::string(common) + std::string(rest);
  std::string name(rest);
  for (const auto& [own, common] : {Names{".attention_layer_norm.", ".input_layernorm."},
                                    {".feedforward_layer_norm.", ".post_attention_layernorm."},
                                    {".self_attn.gate_proj.", ".self_attn.g_proj."},
                                    {".self_attn.attention_sink_bias", ".self_attn.sinks"},
                                    {".self_attn.softmax_offset", ".self_attn.sinks"},
                                    {".attention.query_layernorm.", ".self_attn.q_norm."},
                                    {".attention.key_layernorm.", ".self_attn.k_norm."},
                                    {".attention.dense.", ".self_attn.o_proj."},
                                    {".attention.", ".self_attn."}})
    if (const size_t at = name.find(own); at != std::string::npos) name.replace(at, own.size(), common);
  return name;
}

}  // namespace

std::optional<std::string> fold_name(std::string_view name) {
  std::string_view rest = name;
  strip(rest, "language_model.");
  const bool in_model = strip(rest, "model.") || strip(rest, "backbone.") || strip(rest, "gpt_neox.") ||
                        strip(rest, "transformer.");
  if (in_model && strip(rest, "language_model."))
    strip(rest, "model.");  // both: Step, saved by Transformers
  else if (in_model)
    strip(rest, "text_model.");
  if (rest == "embed_out.weight") return "lm_head.weight";  // GPT-NeoX
  for (std::string_view vision : {"visual.", "vision_tower.", "vision_model.", "multi_modal_projector.",
                                  "mm_projector.", "embed_vision.", "audio_tower.", "embed_audio.",
                                  "connector.", "image_newline", "vit_large_projector.", "vision_adapter."})
    if (rest.starts_with(vision)) return std::nullopt;
  // Mistral's own files have other parts of a tower under these names, alone (mistral_native.cc).
  if (in_model && (rest.starts_with("vision_encoder.") || rest.starts_with("vision_projection.")))
    return std::nullopt;
  // The head and the MTP module are siblings of the model, wherever a conversion nested them. Embedding
  // models have no head, and are saved without the prefix around the layers.
  const bool alone =
      rest.starts_with("layers.") || rest.starts_with("embed_tokens.") || rest == "norm.weight";
  if (alone || (in_model && !rest.starts_with("mtp.") && !rest.starts_with("lm_head.")))
    return common_moe_name("model." + common_name(rest));
  return std::string(rest);
}

std::optional<std::string> vision_name(std::string_view name) {
  strip(name, "language_model.");
  strip(name, "model.");
  if (name.starts_with("multi_modal_projector.")) return std::string(name);
  const bool tower = strip(name, "visual.") || strip(name, "vision_tower.");
  if (!strip(name, "vision_model.") && !tower) return std::nullopt;
  return std::string(name);
}

bool is_mtp_name(std::string_view name) {
  const auto folded = fold_name(name);
  return folded && folded->starts_with("mtp.");
}

bool keeps_offset_norms(std::string_view model_type) {
  return model_type.starts_with("gemma") || model_type == "vaultgemma" || model_type == "nemotron";
}

bool is_behind_layers(std::string_view name, int64_t layers) {
  constexpr std::string_view kLayers = "model.layers.";
  if (name.starts_with("mtp.") || name.starts_with("model.mtp_")) return true;
  if (!name.starts_with(kLayers)) return false;
  name.remove_prefix(kLayers.size());
  int64_t layer = 0;
  const auto end = std::from_chars(name.data(), name.data() + name.size(), layer);
  return end.ec == std::errc() && layer >= layers;
}

bool natural_less(std::string_view a, std::string_view b) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (digit(a[i]) && digit(b[j])) {
      const size_t first_i = i, first_j = j;
      while (i < a.size() && digit(a[i])) i++;
      while (j < b.size() && digit(b[j])) j++;
      if (i - first_i != j - first_j) return i - first_i < j - first_j;
      if (const int order = a.substr(first_i, i - first_i).compare(b.substr(first_j, j - first_j)))
        return order < 0;
    } else if (a[i] != b[j]) {
      return a[i] < b[j];
    } else {
      i++;
      j++;
    }
  }
  return a.size() - i < b.size() - j;
}

}  // namespace anabranch
