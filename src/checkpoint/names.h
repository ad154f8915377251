// Tensor names of the several layouts, folded to Hugging Face's text-only ones ("model.layers.0...").
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace anabranch {

// A safetensors name; none for tensors of the vision part, which are left aside.
std::optional<std::string> fold_name(std::string_view name);
// Of the multi-token prediction head.
bool is_mtp_name(std::string_view name);

}  // namespace anabranch
