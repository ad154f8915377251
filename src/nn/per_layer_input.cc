#include "nn/per_layer_input.h"

#include "ops/profile.h"

namespace anabranch::nn {

Tensor PerLayerInputs::operator()(std::span<const int> ids, const Tensor& embedding,
                                  const Tensor* chosen) const {
  const ops::Stage stage(embedding.device(), "per-layer inputs");
  const int rows = static_cast<int>(ids.size());
  const Tensor own = ops::scale(ops::embed(ids, table, chosen), table_scale).reshape({rows * layers, width});
  const Tensor context = norm(ops::linear(embedding, projection).reshape({rows * layers, width}));
  std::vector<int> by_layer;
  by_layer.reserve(static_cast<size_t>(rows) * static_cast<size_t>(layers));
  for (int layer = 0; layer < layers; layer++)
    for (int row = 0; row < rows; row++) by_layer.push_back(row * layers + layer);
  return ops::take_rows(ops::add(context, own), by_layer);
}

Tensor PerLayerGate::operator()(const Tensor& x, const Tensor& input) const {
  const ops::Stage stage(x.device(), "per-layer input: gate, projection, add");
  return ops::add(x, norm(ops::linear(ops::swiglu(ops::linear(x, gate), input, activation), projection)));
}

}  // namespace anabranch::nn
