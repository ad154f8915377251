#include "nn/mtp.h"

#include "ops/profile.h"

namespace anabranch::nn {

Tensor Mtp::operator()(const Tensor& embedding, const Tensor& hidden, const Batch& batch) const {
  const ops::Stage stage(hidden.device(), "mtp head");
  const int n = hidden.shape(0), h = hidden.shape(1);
  std::vector<int> alternate;  // rows of embedding and hidden, interleaved
  for (int i = 0; i < n; i++) alternate.insert(alternate.end(), {i, n + i});
  const auto both = ops::concat_rows({norm_embedding(embedding), norm_hidden(hidden)});
  auto x = ops::linear(ops::take_rows(both, alternate).reshape({n, 2 * h}), fc.weight);
  for (size_t i = 0; i < layers.size(); i++) x = layers[i](x, batch, static_cast<int>(i));
  return norm(x);
}

}  // namespace anabranch::nn
