#include "nn/decoder_layer.h"

namespace anabranch::nn {

Tensor DecoderLayer::run_streams(const Tensor& x, const Batch& batch, int part) const {
  constexpr int kPartsOfNGrams = 2;
  const Residual nothing(nullptr, nullptr);
  const Tensor in = ngrams ? (*ngrams)(x, batch, part) : x;
  const Tensor h = streams->of_mixer(in, [&](const Tensor& row) {
    const Normed plain{row, nullptr, batch.adapters};
    const int own = ngrams ? part + kPartsOfNGrams : part;
    return std::visit([&](const auto& m) { return m(plain, batch, own, nothing); }, mixer);
  });
  return streams->of_mlp(h, [&](const Tensor& row) {
    const Normed plain{row, nullptr, batch.adapters};
    return std::visit([&](const auto& m) { return m(plain, nothing); }, mlp);
  });
}

Tensor DecoderLayer::operator()(const Tensor& x, const Batch& batch, int part, const Tensor* input) const {
  if (streams) return run_streams(x, batch, part);
  // An RMSNorm before a part is computed together with the part's first products, a LayerNorm before them.
  const auto with_input = [&](const Tensor& in, const std::optional<Norm>& norm, const auto& run) {
    if (!norm || !norm->bias) return run(Normed{in, norm ? &*norm : nullptr, batch.adapters});
    const Tensor normed = (*norm)(in);
    return run(Normed{normed, nullptr, batch.adapters});
  };
  // What a part's output is added to: its input, or `rows` of it, if the residual stream goes through the
  // norms.
  const auto added_to = [&](const Tensor& in, const std::optional<Norm>& norm, float factor, Tensor& rows) {
    if (!normed_residual) return &in;
    rows = (*norm)(in);
    if (factor != 1) rows = ops::scale(rows, factor);
    return static_cast<const Tensor*>(&rows);
  };
  const NormedResidual factors =
      normed_residual.value_or(NormedResidual{1, residual_scale, 1, residual_scale});
  // h = x + scale * post1(mixer(norm1(x)))
  // y = h + scale * post2(mlp(norm2(h)))   parallel: norm2(x)
  // The sums are computed together with a part's last product.
  Tensor rows1, rows2;
  const Tensor* to1 = added_to(x, norm1, factors.mixer_input, rows1);
  const Tensor h = with_input(x, norm1, [&](const Normed& in) {
    const Residual residual(to1, post1, factors.mixer_output);
    return std::visit([&](const auto& m) { return m(in, batch, part, residual); }, mixer);
  });
  const Tensor* to2 = added_to(h, norm2, factors.mlp_input, rows2);
  Tensor y = with_input(parallel ? x : h, norm2, [&](const Normed& in) {
    return std::visit([&](const auto& m) { return m(in, Residual(to2, post2, factors.mlp_output)); }, mlp);
  });
  if (per_layer) y = (*per_layer)(y, *input);
  return scale == 1 ? y : ops::scale(y, scale);
}

}  // namespace anabranch::nn
