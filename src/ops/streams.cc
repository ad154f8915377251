#include "ops/streams.h"

#include "ops/arguments.h"
#include "ops/table.h"

namespace anabranch::ops {
namespace {

void require_streams(const char* op, const Tensor& x, int streams) {
  require_f32(op, "x", x, 2);
  require(streams > 0 && x.shape(1) % streams == 0, op, "{} values do not divide into {} streams.",
          x.shape(1), streams);
}

}  // namespace

Tensor norm_streams(const Tensor& x, const Tensor& w, float eps, int streams) {
  require_streams("norm_streams", x, streams);
  require_shape("norm_streams", "w", w, {x.shape(1)});
  return x.device().ops().norm_streams(x, w, eps, streams);
}

Tensor mix_streams(const Tensor& x, const Tensor& gates, int streams) {
  require_streams("mix_streams", x, streams);
  require_shape("mix_streams", "gates", gates, x.shape());
  return x.device().ops().mix_streams(x, gates, streams);
}

Tensor add_to_streams(const Tensor& x, const Tensor& y, const Tensor& weights) {
  require_f32("add_to_streams", "weights", weights, 2);
  require_streams("add_to_streams", x, weights.shape(1));
  require_shape("add_to_streams", "weights", weights, {x.shape(0), weights.shape(1)});
  require_shape("add_to_streams", "y", y, {x.shape(0), x.shape(1) / weights.shape(1)});
  return x.device().ops().add_to_streams(x, y, weights);
}

Tensor gate_streams(const Tensor& keys, const Tensor& queries, const Tensor& values, int streams) {
  require_streams("gate_streams", keys, streams);
  require_shape("gate_streams", "queries", queries, keys.shape());
  require_shape("gate_streams", "values", values, {keys.shape(0), keys.shape(1) / streams});
  return keys.device().ops().gate_streams(keys, queries, values, streams);
}

}  // namespace anabranch::ops
