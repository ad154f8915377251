// Linear layers and norms, and the two places where a layer meets the residual stream: its normed input and
// its last product. Activations are [M, hidden] f32, M rows of the batch.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ops/collective.h"
#include "ops/elementwise.h"
#include "ops/linear.h"

namespace anabranch::nn {

// RMSNorm with a plain multiplier: checkpoints that store w for (1 + w) are converted when loaded.
struct RmsNorm : ops::RowNorm {
  Tensor operator()(const Tensor& x) const { return ops::rms_norm(x, weight, eps); }
};

// Where a linear has only some of its outputs, because devices share it: how its input and its output are
// cut.
struct Share {
  ops::Collective* group = nullptr;
  ops::Split inputs, outputs;
};

struct Linear {
  ops::Weight weight;          // [out, in]
  std::optional<Tensor> bias;  // [out], of all outputs
  std::shared_ptr<const Share> share = {};
  // [all outputs, own inputs]: the same product split by its inputs, for few rows (ops/collective.h).
  std::optional<ops::Weight> own_inputs = {};
};

// norm(x), the input of a layer. It is computed together with the first products of it.
struct Normed {
  const Tensor& x;
  const RmsNorm& norm;
  bool add_x = false;  // the layer may add x to its output itself: it says so in LayerOutput
};

// The output of a layer: linear(y), which is computed together with the addition to the residual stream, or y
// itself when there is no linear.
struct LayerOutput {
  ops::MatmulInput y;
  const Linear* linear;
  const char* stage;  // its name in profiles
  bool added_x = false;
};

// The products of one input with several matrices.
std::vector<Tensor> project(const Normed& input, std::span<const Linear* const> layers);

// linear(y) as it stands in all its outputs, plus residual unless it is null; without the bias.
Tensor apply(const Linear& linear, const ops::MatmulInput& y, const Tensor* residual = nullptr);

// x + post(output), or the output where x is in it already. With a linear and without a norm: (x + W y) +
// bias, in this order.
Tensor add(const Tensor& x, const std::optional<RmsNorm>& post, const LayerOutput& output);

}  // namespace anabranch::nn
