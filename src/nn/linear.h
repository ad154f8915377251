// Linear layers and norms, and the two places where a layer meets the residual stream: its normed input and
// its last product. Activations are [M, hidden] f32, M rows of the batch.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ops/elementwise.h"
#include "ops/linear.h"

namespace anabranch::nn {

// RMSNorm with a plain multiplier: checkpoints that store w for (1 + w) are converted when loaded.
struct RmsNorm : ops::RowNorm {
  Tensor operator()(const Tensor& x) const { return ops::rms_norm(x, weight, eps); }
};

struct Linear {
  ops::Weight weight;          // [out, in]
  std::optional<Tensor> bias;  // [out]
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

// x + post(output), or the output where x is in it already. With a linear and without a norm: (x + W y) +
// bias, in this order.
Tensor add(const Tensor& x, const std::optional<RmsNorm>& post, const LayerOutput& output);

}  // namespace anabranch::nn
