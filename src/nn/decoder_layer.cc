#include "nn/decoder_layer.h"

namespace anabranch::nn {

Tensor DecoderLayer::operator()(const Tensor& x, const Batch& batch, int part, const Tensor* input) const {
  // An RMSNorm before a part is computed together with the part's first products, a LayerNorm before them.
  const auto with_input = [&](const Tensor& in, const std::optional<Norm>& norm, const auto& run) {
    if (!norm || !norm->bias) return run(Normed{in, norm ? &*norm : nullptr, batch.adapters});
    const Tensor normed = (*norm)(in);
    return run(Normed{normed, nullptr, batch.adapters});
  };
  // h = x + scale * post1(mixer(norm1(x)))
  // y = h + scale * post2(mlp(norm2(h)))   parallel: norm2(x)
  // The sums are computed together with a part's last product.
  const Tensor h = with_input(x, norm1, [&](const Normed& in) {
    return std::visit([&](const auto& m) { return m(in, batch, part, Residual(&x, post1, residual_scale)); },
                      mixer);
  });
  Tensor y = with_input(parallel ? x : h, norm2, [&](const Normed& in) {
    return std::visit([&](const auto& m) { return m(in, Residual(&h, post2, residual_scale)); }, mlp);
  });
  if (per_layer) y = (*per_layer)(y, *input);
  return scale == 1 ? y : ops::scale(y, scale);
}

}  // namespace anabranch::nn
