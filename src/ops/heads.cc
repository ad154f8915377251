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

}  // namespace anabranch::ops
