// All layouts of quantised matrices that can be read. A module's tensors determine its layout; other facts
// come from the quantisation config.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "checkpoint/quantized/module.h"

namespace anabranch {

std::span<const QuantizedLayout* const> quantized_layouts();

// The layout of the module that tensor `name` stands for, and the module's stem.
struct FoundLayout {
  const QuantizedLayout* layout;
  std::string_view stem;
};
std::optional<FoundLayout> find_layout(const RawTensors& all, std::string_view name, const RawTensor& tensor);

// A tensor that belongs to quantised activations or cached keys and values ("....input_scale"), which are
// computed with unrounded numbers here: not needed.
bool is_activation_scale(std::string_view name);

extern const QuantizedLayout kMlxLayout;           // weight (U32), scales, biases
extern const QuantizedLayout kFp8Layout;           // weight (E4M3), weight_scale_inv or weight_scale
extern const QuantizedLayout kGptqLayout;          // qweight (packed along the inputs), qzeros, scales, g_idx
extern const QuantizedLayout kAwqLayout;           // qweight (packed along the outputs), qzeros, scales
extern const QuantizedLayout kPackedIntLayout;     // weight_packed (I32), weight_scale, weight_shape
extern const QuantizedLayout kInt8Layout;          // weight (I8), weight_scale
extern const QuantizedLayout kPackedFloat4Layout;  // weight_packed (U8), weight_scale, weight_global_scale
extern const QuantizedLayout kFloat4Layout;        // weight (U8), weight_scale, weight_scale_2
extern const QuantizedLayout kBlocksLayout;        // _blocks (U8), _scales: MXFP4 of gpt-oss
extern const QuantizedLayout kBnb4Layout;          // weight (U8), weight.absmax, weight.quant_map, ...
extern const QuantizedLayout kBnb8Layout;          // weight (I8), SCB

}  // namespace anabranch
