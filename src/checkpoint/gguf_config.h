// GGUF metadata in the terms of Hugging Face's config.json.
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "checkpoint/gguf.h"

namespace anabranch {

enum class GgufArch { llama, qwen2, qwen3, qwen35, gemma3 };

struct GgufConfig {
  GgufArch arch = GgufArch::llama;
  int64_t layers = 0;  // without those of the MTP module
  int64_t heads = 0, kv_heads = 0;
  int64_t experts = 0;  // 0: not a mixture
  // qwen35's recurrent layers
  int64_t linear_key_heads = 0, linear_value_heads = 0, linear_key_dim = 0, linear_value_dim = 0;
  Json config;
};

// Errors: invalid (a key is missing or makes no sense), unsupported (an architecture that we cannot read).
Result<GgufConfig> read_gguf_config(const GgufFile& file, const std::string& path);

}  // namespace anabranch
