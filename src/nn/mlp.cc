#include "nn/mlp.h"

#include "ops/profile.h"

namespace anabranch::nn {

Tensor Mlp::operator()(const Normed& x, const Residual& residual) const {
  const auto inner = [&] {
    const ops::Stage stage(x.x.device(), "mlp: norm, gate, up, activation");
    return project_glu(x, gate, up, activation);
  }();
  const ops::Stage stage(x.x.device(), "mlp: down, add");
  return add(residual, down, inner, x.adapters);
}

}  // namespace anabranch::nn
