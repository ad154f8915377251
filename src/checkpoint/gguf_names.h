// Names of tensors: GGUF's and Hugging Face's, by family, in both directions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "checkpoint/gguf_config.h"

namespace anabranch {

// "blk.0.attn_q.weight" -> "model.layers.0.self_attn.q_proj.weight"; unknown names stay as they are.
std::string hf_name(const GgufConfig& config, const std::string& gguf_name);

// The inverse: the name in llama.cpp's files; empty if this architecture has no such tensor. layers: without
// those of the prediction head, which follow them.
std::string gguf_name(GgufArch arch, int64_t layers, std::string_view hf_name);

// "blk.12.attn_q.weight" -> 12, "attn_q.weight"
std::optional<std::pair<int64_t, std::string_view>> split_gguf_layer(std::string_view name);

}  // namespace anabranch
