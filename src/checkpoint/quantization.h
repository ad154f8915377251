// config.json's "quantization": the defaults and the exceptions per module that MLX conversions write.
#pragma once

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

struct QuantizationConfig {
  AffineFormat defaults;
  // Module path as the files name it ("language_model.model.layers.0.mlp.up_proj"); none = kept dense.
  std::map<std::string, std::optional<AffineFormat>, std::less<>> overrides;
};

// None when config.json has no quantization. Errors: invalid (not bits 2 3 4 5 6 8, not group 32 64 128),
// unsupported (another mode or another quantisation method).
Result<std::optional<QuantizationConfig>> parse_quantization(const Json& config, const std::string& path);

}  // namespace anabranch
