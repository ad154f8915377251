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

// RMSNorm with a plain multiplier (checkpoints that store w for (1 + w) are converted when loaded), or
// LayerNorm, if there is a bias.
struct Norm : ops::RowNorm {
  std::optional<Tensor> bias = {};
  Tensor operator()(const Tensor& x) const {
    return bias ? ops::layer_norm(x, weight, *bias, eps) : ops::rms_norm(x, weight, eps);
  }
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
  float scale = 1;             // of the product and of what adapters add to it, but not of the bias
  std::shared_ptr<const Share> share = {};
  // [all outputs, own inputs]: a copy of the matrix that is split by inputs, for few rows (ops/collective.h).
  std::optional<ops::Weight> own_inputs = {};
  std::shared_ptr<const Origin> origin = {};  // null: no adapter can change it
};

// norm(x), the input of a layer, or x itself without a norm. It is computed together with the layer's first
// products, so the norm has no bias.
struct Normed {
  const Tensor& x;
  const Norm* norm = nullptr;
  std::span<const AdapterRows> adapters = {};
};

// Where a layer's output goes: x + scale * post(output). Without `post`, there is no norm. Without x, nothing
// is added.
struct Residual {
  const Tensor* x = nullptr;  // the layer's input, before its norm
  const Norm* post = nullptr;
  float scale = 1;

  Residual(const Tensor* x, const Norm* post) : x(x), post(post) {}
  Residual(const Tensor* x, const std::optional<Norm>& post, float scale = 1)
      : x(x), post(post ? &*post : nullptr), scale(scale) {}
  // Whether the output is added as it is, so that the kernel that computes it can add x, too.
  bool is_fused() const { return x && !post && scale == 1; }
};

// Multiplies one input with several matrices, and adds what its adapters add.
std::vector<Tensor> project(const Normed& input, std::span<const Linear* const> layers);

// activation(gate(input)) * up(input). Both have a bias or none.
ops::MatmulInput project_glu(const Normed& input, const Linear& gate, const Linear& up,
                             ops::Activation activation);

// x + scale * post(linear(y)), the end of a layer, with all outputs of a linear that is split. Without a norm
// and scales, the product and the sum are one kernel: (x + W y) + adapters + bias, in this order.
Tensor add(const Residual& residual, const Linear& linear, const ops::MatmulInput& y,
           std::span<const AdapterRows> adapters);
// x + scale * post(y).
Tensor add(const Residual& residual, const Tensor& y);

}  // namespace anabranch::nn
