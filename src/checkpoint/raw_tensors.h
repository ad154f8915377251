// The tensors of a model's safetensors files by their names there, before quantised ones are put together.
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

// A name as the model has it; none: not a tensor of the part that is read.
using NameOf = std::optional<std::string> (*)(std::string_view);

// The tensors that have a name, those of a quantised module as one entry "<module>.weight". Scales of
// activations are left out when there are such modules. A module of a vision tower or a draft head ("mtp.")
// that cannot be read becomes an unreadable entry: the rest of the model can do without.
Result<std::vector<Entry>> join_tensors(const RawTensors& raw,
                                        const std::optional<QuantizationConfig>& quantization,
                                        const std::string& config_path, NameOf name_of);

}  // namespace anabranch
