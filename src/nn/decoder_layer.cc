#include "nn/decoder_layer.h"

namespace anabranch::nn {

Tensor DecoderLayer::operator()(const Tensor& x, const Batch& batch, int part, const Tensor* input) const {
  const auto mix = [&](const Normed& normed) {
    return std::visit([&](const auto& m) { return m(normed, batch, part); }, mixer);
  };
  const auto feed_forward = [&](const Normed& normed) {
    return std::visit([&](const auto& m) { return m(normed); }, mlp);
  };
  const Tensor h = add(x, post1, mix({x, norm1, false, batch.adapters}));
  Tensor y = add(h, post2, feed_forward({h, norm2, !post2, batch.adapters}));
  if (per_layer) y = (*per_layer)(y, *input);
  return scale == 1 ? y : ops::scale(y, scale);
}

}  // namespace anabranch::nn
