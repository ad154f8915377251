#include "checkpoint/names.h"

namespace anabranch {

namespace {

bool strip(std::string_view& name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return false;
  name.remove_prefix(prefix.size());
  return true;
}

// The modules of experts of Mixtral, Gemma 4 and gpt-oss have the other families' names here. Gemma 4's
// experts are beside its MLP; MLX calls them switch_glu. MLX's stacks of gpt-oss have the name of a single
// expert's module.
std::string common_moe_name(std::string name) {
  struct Names {
    std::string_view own, common;
  };
  for (const auto& [own, common] : {Names{".block_sparse_moe.", ".mlp."},
                                    {".mlp.router.", ".mlp.gate."},
                                    {".mlp.experts.gate_proj.", ".mlp.switch_mlp.gate_proj."},
                                    {".mlp.experts.up_proj.", ".mlp.switch_mlp.up_proj."},
                                    {".mlp.experts.down_proj.", ".mlp.switch_mlp.down_proj."},
                                    {".mlp.experts.", ".mlp.experts."},
                                    {".experts.switch_glu.", ".mlp.switch_mlp."},
                                    {".experts.", ".mlp.experts."}}) {
    const size_t at = name.find(own);
    if (at == std::string::npos) continue;
    name.replace(at, own.size(), common);
    break;
  }
  return name;
}

// The final norm and the embedding of Nemotron-H, LFM2 and Bamba, and norms in OLMo Hybrid's layers.
std::string common_name(std::string_view rest) {
  struct Names {
    std::string_view own, common;
  };
  for (const auto& [own, common] : {Names{"embeddings.", "embed_tokens."},
                                    {"norm_f.", "norm."},
                                    {"embedding_norm.", "norm."},
                                    {"final_layernorm.", "norm."}})
    if (strip(rest, own)) return std::string(common) + std::string(rest);
  std::string name(rest);
  for (const auto& [own, common] : {Names{".attention_layer_norm.", ".input_layernorm."},
                                    {".feedforward_layer_norm.", ".post_attention_layernorm."}})
    if (const size_t at = name.find(own); at != std::string::npos) name.replace(at, own.size(), common);
  return name;
}

}  // namespace

std::optional<std::string> fold_name(std::string_view name) {
  std::string_view rest = name;
  strip(rest, "language_model.");
  const bool in_model = strip(rest, "model.") || strip(rest, "backbone.");
  if (in_model) strip(rest, "language_model.");
  for (std::string_view vision : {"visual.", "vision_tower.", "vision_model.", "multi_modal_projector.",
                                  "embed_vision.", "audio_tower.", "embed_audio."})
    if (rest.starts_with(vision)) return std::nullopt;
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
