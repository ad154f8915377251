#include "nn/decoder_layer.h"

namespace anabranch::nn {

Tensor DecoderLayer::operator()(const Tensor& x, const Batch& batch, int part, const Tensor* input) const {
  const auto mix = [&](const Normed& normed, const Residual& residual) {
    return std::visit([&](const auto& m) { return m(normed, batch, part, residual); }, mixer);
  };
  const auto feed_forward = [&](const Normed& normed, const Residual& residual) {
    return std::visit([&](const auto& m) { return m(normed, residual); }, mlp);
  };
  // h = x + post1(mixer(norm1(x)))
  // y = h + post2(mlp(norm2(h)))
  // Norms before a layer are computed together with its first products, the sums together with its last.
  const Tensor h = mix({x, norm1, batch.adapters}, {&x, post1});
  Tensor y = feed_forward({h, norm2, batch.adapters}, {&h, post2});
  if (per_layer) y = (*per_layer)(y, *input);
  return scale == 1 ? y : ops::scale(y, scale);
}

}  // namespace anabranch::nn
