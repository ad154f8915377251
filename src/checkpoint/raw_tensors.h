// The tensors of safetensors files by their names there; joins each quantised module's tensors into one
// entry.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/file_bytes.h"
#include "checkpoint/quantization.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/store.h"

namespace anabranch {

struct RawTensor {  // points into a parsed file
  const SafetensorsTensor* tensor;
  const FileBytes* file;
  NormConvention norms;
};
using RawTensors = std::map<std::string_view, RawTensor, std::less<>>;

// Returns the name in the model; nullopt if the tensor is not in the part that is read.
using NameOf = std::optional<std::string> (*)(std::string_view);

// The tensors for which name_of returns a name. The tensors of a quantised module become one entry
// "<module>.weight". Scales of activations are left out when there are such modules. A module of a vision
// tower, of a draft head or of a layer for prediction (see is_behind_layers) that cannot be read becomes an
// unreadable entry, because the rest of the model works without it.
Result<std::vector<Entry>> join_tensors(const RawTensors& raw,
                                        const std::optional<QuantizationConfig>& quantization,
                                        const std::string& config_path, NameOf name_of,
                                        int64_t layers = INT64_MAX);

}  // namespace anabranch
