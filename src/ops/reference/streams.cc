#include "ops/reference/streams.h"

#include <mlx/ops.h>

#include <cmath>

#include "ops/reference/device.h"

namespace anabranch::ops::reference {
namespace {

// [M, n * H] -> [M, n, H].
mx::array streams_of(const Tensor& x, int streams) {
  return mx::reshape(as_mlx(x), {x.shape(0), streams, x.shape(1) / streams});
}

Tensor rows_of_streams(const Tensor& like, const mx::array& x) {
  return from_mlx(like.device(), mx::reshape(x, {like.shape(0), like.shape(1)}));
}

}  // namespace

Tensor norm_streams(const Tensor& rows, const Tensor& w, float eps, int streams) {
  const auto x = streams_of(rows, streams);
  const auto scale = mx::rsqrt(mx::add(mx::mean(mx::square(x), -1, true), mx::array(eps)));
  return rows_of_streams(
      rows, mx::multiply(mx::multiply(x, scale), streams_of(w.reshape({1, w.shape(0)}), streams)));
}

Tensor mix_streams(const Tensor& x, const Tensor& gates, int streams) {
  return from_mlx(x.device(),
                  mx::mean(mx::multiply(streams_of(x, streams), mx::sigmoid(streams_of(gates, streams))), 1));
}

Tensor add_to_streams(const Tensor& x, const Tensor& y, const Tensor& weights) {
  const int streams = weights.shape(1);
  const auto part = mx::divide(as_mlx(weights), mx::array(static_cast<float>(streams)));
  const auto factors = mx::multiply(mx::array(2.0f), mx::sigmoid(part));
  const auto added = mx::multiply(mx::expand_dims(as_mlx(y), 1), mx::expand_dims(factors, 2));
  return rows_of_streams(x, mx::add(streams_of(x, streams), added));
}

Tensor gate_streams(const Tensor& keys, const Tensor& queries, const Tensor& values, int streams) {
  const auto products =
      mx::sum(mx::multiply(streams_of(keys, streams), streams_of(queries, streams)), -1, true);
  const float root = std::sqrt(static_cast<float>(values.shape(1)));
  const auto d = mx::divide(products, mx::array(root));
  const auto size = mx::sqrt(mx::maximum(mx::abs(d), mx::array(1e-6f)));
  const auto gate = mx::sigmoid(mx::multiply(size, mx::sign(d)));
  return rows_of_streams(keys, mx::multiply(gate, mx::expand_dims(as_mlx(values), 1)));
}

}  // namespace anabranch::ops::reference
