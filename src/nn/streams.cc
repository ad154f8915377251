#include "nn/streams.h"

namespace anabranch::nn {

Tensor StreamMixer::normed(const Tensor& x) const {
  return ops::norm_streams(x, norm.weight, norm.eps, streams);
}

Tensor StreamMixer::mix(const Tensor& normed) const {
  const Tensor low = ops::scale(ops::linear(normed, down), 1.0f / static_cast<float>(streams));
  return ops::mix_streams(normed, ops::linear(ops::sigmoid_gate(low, low), up), streams);
}

Tensor to_streams(const Tensor& x, int streams) {
  std::vector<int> rows;
  rows.reserve(static_cast<size_t>(x.shape(0)) * static_cast<size_t>(streams));
  for (int row = 0; row < x.shape(0); row++) rows.insert(rows.end(), static_cast<size_t>(streams), row);
  return ops::take_rows(x, rows).reshape({x.shape(0), streams * x.shape(1)});
}

}  // namespace anabranch::nn
