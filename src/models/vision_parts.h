// The building blocks of vision towers, and the parts that differ between families.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/config.h"
#include "models/vision_tower.h"
#include "nn/linear.h"
#include "ops/attention.h"

namespace anabranch {

struct LayerNorm {
  Tensor weight, bias;
  float eps = 1e-6f;
  Tensor operator()(const Tensor& x) const { return ops::layer_norm(x, weight, bias, eps); }
};

// h = x + out(attention(q, k, v of norm1(x))),  y = h + down(gelu(up(norm2(h)))).
struct VisionLayer {
  LayerNorm norm1, norm2;
  nn::Linear q, k, v, out, up, down;
};

// An image's patches, `rows` by `columns`. Inside the tower they are ordered in blocks of merge x merge, each
// of which becomes a token.
struct PatchGrid {
  int rows = 0, columns = 0;
  int count() const { return rows * columns; }
};
// Row and column of the i-th patch.
struct PatchPosition {
  int row, column;
};
PatchPosition position_in_blocks(const PatchGrid& grid, int merge, int index);

// Qwen: makes a token of merge x merge patches.
struct VisionMerger {
  LayerNorm norm;       // of all patches together
  nn::Linear up, down;  // [hidden * merge^2, hidden * merge^2], [out_hidden, hidden * merge^2]
};

struct VisionFamily;

struct VisionWeights {
  VisionSpec spec;
  Device* device = nullptr;
  const VisionFamily* family = nullptr;
  int head_dim = 0;    // head size of queries and keys on the device; larger than the spec's (zero-padded) if
                       // the device has no kernels for that size
  ops::Rope rope;      // without frequencies: no rotation
  nn::Linear patches;  // [hidden, patch_inputs]
  std::vector<float> table;  // learned positions [table_side * table_side, hidden]
  std::vector<VisionLayer> layers;
  LayerNorm last_norm;
  std::optional<nn::Linear> merge_up;   // qwen: [hidden * merge^2, hidden * merge^2]
  std::optional<nn::Norm> pooled_norm;  // gemma3
  nn::Linear projection;                // [out_hidden, hidden * merge^2]; gemma3: [out_hidden, hidden]
  std::vector<VisionMerger> deepstack;  // for each layer of VisionSpec::deepstack
};

// Names of tensors; those of layer i follow the prefix "<layers><i>.".
struct VisionNames {
  std::string layers;
  std::string norm1, norm2, out, up, down;
  std::string qkv;  // one matrix with all three; empty: q, k and v are separate
  std::string q, k, v;
  std::string patches, table, last_norm;
};

struct VisionFamily {
  VisionNames names;
  VisionSpec (*read_config)(ConfigReader& config, const Json& whole, const std::string& file);
  ops::Rope (*rope)(const VisionSpec& spec);
  // Loads the weights that follow the layers.
  Result<void> (*load_end)(Checkpoint& checkpoint, VisionWeights& weights);
  // The learned position of a patch, [hidden].
  void (*position)(const VisionWeights& weights, const PatchGrid& grid, PatchPosition place, float* out);
  // x: the layers' output for whole blocks of merge x merge patches -> one row for each block.
  Tensor (*finish)(const VisionWeights& weights, const Tensor& x);
  // x: such patches behind the layer of this deepstack merger -> one row for each block. Null: the family has
  // none.
  Tensor (*merge)(const VisionMerger& merger, const Tensor& x);
};
const VisionFamily& qwen_vision();
const VisionFamily& siglip_vision();

// "<name>.weight" [out, in] and "<name>.bias".
Result<nn::Linear> take_vision_linear(Checkpoint& checkpoint, Device& device, const std::string& name,
                                      int out, int in);
Result<LayerNorm> take_layer_norm(Checkpoint& checkpoint, Device& device, const std::string& name, int size,
                                  float eps);
Tensor project(const nn::Linear& linear, const Tensor& x);  // with its bias

}  // namespace anabranch
