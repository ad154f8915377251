// Tensor names of the several layouts, folded to Hugging Face's text-only ones ("model.layers.0...").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace anabranch {

// The folded form of a safetensors name; nullopt for tensors of the vision part, which are left out.
std::optional<std::string> fold_name(std::string_view name);
// A name of the vision part, without the prefixes that conversions add: "blocks.0.attn.qkv.weight",
// "encoder.layers.0.mlp.fc1.weight", "multi_modal_projector.mm_soft_emb_norm.weight". nullopt for other
// names.
std::optional<std::string> vision_name(std::string_view name);
// Whether the name belongs to the multi-token prediction head.
bool is_mtp_name(std::string_view name);

// Whether all tools store the w of this model's norms, which multiply by 1 + w, in safetensors files. (MLX
// stores 1 + w of other models.)
bool keeps_offset_norms(std::string_view model_type);

// Whether a folded name belongs to parts that predict further tokens: a draft head, or a layer behind the
// model's `layers`.
bool is_behind_layers(std::string_view name, int64_t layers);

// "layers.2" before "layers.10".
bool natural_less(std::string_view a, std::string_view b);

}  // namespace anabranch
