// Linear layers and norms, and the two places where a layer is connected to the residual stream: its normed
// input and its last product. Activations are [M, hidden] f32, M rows of the batch.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nn/adapter.h"
#include "ops/collective.h"
#include "ops/elementwise.h"
#include "ops/linear.h"

namespace anabranch::nn {

// RMSNorm with a plain multiplier: checkpoints that store w for (1 + w) are converted when loaded.
struct RmsNorm : ops::RowNorm {
  Tensor operator()(const Tensor& x) const { return ops::rms_norm(x, weight, eps); }
};

// How the inputs and outputs of a linear layer are split among devices, if each device has only some of the
// outputs.
struct Share {
  ops::Collective* group = nullptr;
  ops::Split inputs, outputs;
};

// The module of the checkpoint from which a linear layer comes, for adapters of it.
struct Origin {
  std::string module;         // "model.layers.0.self_attn.q_proj"
  int outputs = 0;            // of the module
  std::vector<int64_t> rows;  // the module's outputs that the layer has; empty: all, in order
};

struct Linear {
  ops::Weight weight;          // [out, in]
  std::optional<Tensor> bias;  // [out], for all outputs of the split linear
  std::shared_ptr<const Share> share = {};
  // [all outputs, own inputs]: a copy of the matrix that is split by inputs, for few rows (ops/collective.h).
  std::optional<ops::Weight> own_inputs = {};
  std::shared_ptr<const Origin> origin = {};  // null: no adapter can change it
};

// norm(x), the input of a layer. It is computed together with the layer's first products.
struct Normed {
  const Tensor& x;
  const RmsNorm& norm;
  bool add_x = false;  // the layer may add x to its output itself, and then says so in LayerOutput
  std::span<const AdapterRows> adapters = {};
};

// The output of a layer: linear(y), which is computed together with the addition to the residual stream; or y
// itself if there is no linear.
struct LayerOutput {
  ops::MatmulInput y;
  const Linear* linear;
  const char* stage;  // its name in profiles
  bool added_x = false;
  std::span<const AdapterRows> adapters = {};  // for `linear`
};

// Multiplies one input with several matrices, and adds what its adapters add.
std::vector<Tensor> project(const Normed& input, std::span<const Linear* const> layers);

// activation(gate(input)) * up(input). Both have a bias or none.
ops::MatmulInput project_glu(const Normed& input, const Linear& gate, const Linear& up,
                             ops::Activation activation);

// All outputs of linear(y), without the bias; plus residual unless it is null; then what the adapters add.
Tensor apply(const Linear& linear, const ops::MatmulInput& y, const Tensor* residual = nullptr,
             std::span<const AdapterRows> adapters = {});

// x + post(output), or only the output if it already contains x. With a linear and without a norm: (x + W y)
// + adapters + bias, in this order.
Tensor add(const Tensor& x, const std::optional<RmsNorm>& post, const LayerOutput& output);

}  // namespace anabranch::nn
