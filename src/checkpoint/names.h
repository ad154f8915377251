// Tensor names of the several layouts, folded to Hugging Face's text-only ones ("model.layers.0...").
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace anabranch {

// A safetensors name; none for tensors of the vision part, which are left aside.
std::optional<std::string> fold_name(std::string_view name);
// A name of the vision part, without what conversions put before it: "blocks.0.attn.qkv.weight",
// "encoder.layers.0.mlp.fc1.weight", "multi_modal_projector.mm_soft_emb_norm.weight". None for others.
std::optional<std::string> vision_name(std::string_view name);
// Of the multi-token prediction head.
bool is_mtp_name(std::string_view name);

// "layers.2" before "layers.10".
bool natural_less(std::string_view a, std::string_view b);

}  // namespace anabranch
