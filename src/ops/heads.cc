#include "ops/heads.h"

#include "ops/arguments.h"
#include "ops/table.h"

namespace anabranch::ops {

Tensor linear_heads(const Tensor& x, const ExpertMatrices& matrices) {
  require_f32("linear_heads", "x", x, 2);
  require(x.shape(1) == matrices.experts * matrices.weight.in_features(), "linear_heads",
          "x of shape {} does not fit {} matrices of {} inputs.", x.shape(), matrices.experts,
          matrices.weight.in_features());
  return x.device().ops().linear_heads(x, matrices);
}

Tensor join_heads(const Tensor& a, const Tensor& b) {
  require_f32("join_heads", "a", a, 3);
  require_shape("join_heads", "b", b, {a.shape(0), a.shape(1), b.shape(2)});
  return a.device().ops().join_heads(a, b);
}

Tensor cut_heads(const Tensor& x, int keep) {
  require_f32("cut_heads", "x", x, 3);
  require(keep >= 1 && keep <= x.shape(2), "cut_heads", "{} of {} values cannot be kept.", keep, x.shape(2));
  return x.device().ops().cut_heads(x, keep);
}

Tensor gate_heads(const Tensor& x, const Tensor& gate, GateCurve curve) {
  require_f32("gate_heads", "x", x, 2);
  require_f32("gate_heads", "gate", gate, 2);
  require(gate.shape(0) == x.shape(0) && gate.shape(1) >= 1 && x.shape(1) % gate.shape(1) == 0, "gate_heads",
          "a gate of shape {} does not fit {}.", gate.shape(), x.shape());
  return x.device().ops().gate_heads(x, gate, curve);
}

}  // namespace anabranch::ops
