// The quantisation that a model's config.json states: MLX's "quantization" with its exceptions for modules,
// and "quantization_config" of other tools. Most facts about a matrix are read from its tensors
// (quantized/layouts.h); this file has the facts that tensors do not show, and decides which configs cannot
// be read.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace anabranch {

struct AffineFormat {
  int bits = 0;
  int group = 0;
  bool operator==(const AffineFormat&) const = default;
};

enum class MlxMode { affine, mxfp4, mxfp8, nvfp4 };
struct MlxFormat : AffineFormat {
  MlxMode mode = MlxMode::affine;
  bool operator==(const MlxFormat&) const = default;
};

struct QuantizationConfig {
  std::string method = "mlx";  // or a "quant_method"
  // MLX only. Module path as the files name it ("language_model.model.layers.0.mlp.up_proj"); none = kept
  // dense.
  MlxFormat defaults;
  std::map<std::string, std::optional<MlxFormat>, std::less<>> overrides;
  // FP8: rows and columns of a block that shares a scale; 0: not stated.
  std::array<int64_t, 2> block{0, 0};
  // Integer codes: their width, and inputs that share a scale; 0: not stated, or all of a row. Tensors may
  // differ.
  int bits = 0;
  int64_t group = 0;
  // GPTQ's first format: files hold zero points minus one.
  bool zeros_minus_one = true;
};

// Parses the quantisation in config.json; nullopt if it has none. This function alone decides whether a
// config can be read. Errors: invalid (a wrong type, absurd sizes), unsupported (a method, mode, width, group
// or option that is not read, whatever its type); they say what can be read, or what to use instead.
Result<std::optional<QuantizationConfig>> parse_quantization(const Json& config, const std::string& path);

// NVIDIA's ModelOpt may state the quantisation in this file beside config.json only.
inline constexpr const char* kModelOptFile = "hf_quant_config.json";
// config.json with the contents of that file (`text`) as its "quantization_config"; unchanged when it has its
// own quantisation. Errors: invalid (not ModelOpt's file).
Result<Json> with_model_opt_config(Json config, std::string_view text, const std::string& path);

}  // namespace anabranch
