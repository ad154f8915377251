#include "nn/decoder_layer.h"

namespace anabranch::nn {

Tensor DecoderLayer::operator()(const Tensor& x, const Batch& batch, int layer) const {
  const auto mix = [&](const Normed& input) {
    return std::visit([&](const auto& m) { return m(input, batch, layer); }, mixer);
  };
  const auto feed_forward = [&](const Normed& input) {
    return std::visit([&](const auto& m) { return m(input); }, mlp);
  };
  const Tensor h = add(x, post1, mix({x, norm1}));
  return add(h, post2, feed_forward({h, norm2}));
}

}  // namespace anabranch::nn
