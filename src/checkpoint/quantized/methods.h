// "quantization_config" of tools other than MLX: one row for each "quant_method".
#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"
#include "checkpoint/quantization.h"

namespace anabranch {

// Whether the object comes from one of these tools ("quant_method", or ModelOpt's "quant_algo").
bool names_quantization_method(const Json& object);

// Errors: those of parse_quantization.
Result<QuantizationConfig> parse_quantization_method(const Json& object, const std::string& where);

}  // namespace anabranch
