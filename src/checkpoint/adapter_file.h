// LoRA adapters on disk: pairs of low-rank matrices for modules of a base model.
//
//   directory  adapter_config.json with adapter_model.safetensors, as Python's PEFT writes them,
//              or with adapters.safetensors, as MLX's lora writes them
//   *.gguf     as llama.cpp's convert_lora_to_gguf writes them
//
// A module computes W x + scale * B A x. In PEFT's files A is "lora_A", [rank, in], B is "lora_B", [out,
// rank], and scale is alpha / rank, or alpha / sqrt(rank) with "use_rslora".
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "tensor/tensor.h"

namespace anabranch {

inline constexpr int kMaxAdapterRank = 1024;
inline constexpr size_t kMaxAdapterTensors = 100'000;
inline constexpr uint64_t kMaxAdapterBytes = 8ull << 30;  // of all matrices, as f32

struct LowRankMatrices {
  Tensor down;  // A: [rank, in], f32, on the host
  Tensor up;    // B times scale: [out, rank], f32, on the host
};

struct AdapterFile {
  std::string path;
  // By module, as a Checkpoint names it without ".weight": "model.layers.0.self_attn.q_proj". An embedding's
  // `in` is the vocabulary.
  std::map<std::string, LowRankMatrices> modules;
  std::string digest;  // XXH3-128 of the modules' names, shapes and values, in hexadecimal digits
  uint64_t bytes = 0;  // of all matrices here
  std::string base;    // the base model that the file names; empty: it names none
};

// Values are finite and ranks are 1 to kMaxAdapterRank; whether the base model has such modules is not
// checked.
//
// base_config: Checkpoint::config() of the base model. GGUF files of Llama and Qwen3.5 have the rows of some
// modules in an order that depends on the model's heads; other adapters do not need it.
//
// Errors: not_found, io, invalid (damaged files, too many tensors or bytes, a matrix without its other half,
// ranks that differ from the config's, values that are not finite), unsupported (anything that such matrices
// cannot state, such as DoRA, biases and whole weights; types other than f32, f16 and bf16).
Result<AdapterFile> read_adapter(const std::string& path, const Json& base_config = Json());

}  // namespace anabranch
