// Families of models that can be written as GGUF files: llama.cpp's names for them, their metadata, and how
// their rows and values differ from Hugging Face's. The inverse of gguf_config.h and gguf_model.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf_config.h"
#include "checkpoint/gguf_keys.h"

namespace anabranch {

// A model in the terms of its family.
struct GgufModel {
  GgufArch arch = GgufArch::llama;
  const char* arch_name = "";  // "llama"
  bool shifted_norms = false;  // the model applies 1 + w, and files contain the sum
  int64_t layers = 0, mtp_layers = 0;
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  // For recurrent layers.
  int64_t linear_key_heads = 0, linear_value_heads = 0, linear_key_dim = 0, linear_value_dim = 0;
  GgufKeys keys;
  std::vector<float> rope_factors;  // values of tensor kRopeFactors; empty: there is none
  std::vector<std::string> warnings;
};

// Errors: unsupported (a family or a setting that such files cannot state), invalid (a key is missing or
// makes no sense). They name `path`.
Result<GgufModel> describe_gguf_model(const Checkpoint& source);

// How a tensor of the file is made from the source's tensor.
struct GgufChange {
  std::vector<int64_t> rows, columns;  // row i is row rows[i] of the source; empty: all stay
  std::vector<int64_t> shape;          // the slowest dimension first
  float add = 0;
  bool is_decay = false;  // -exp(value)
};
// Errors: invalid (a shape that does not fit the config).
Result<GgufChange> gguf_change(const GgufModel& model, const TensorInfo& info);

}  // namespace anabranch
