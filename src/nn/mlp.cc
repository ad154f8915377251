#include "nn/mlp.h"

#include "ops/profile.h"

namespace anabranch::nn {

Tensor Mlp::operator()(const Normed& x, const Residual& residual) const {
  const auto inner = [&]() -> ops::MatmulInput {
    const ops::Stage stage(x.x.device(), "mlp: norm, gate, up, activation");
    if (!gate.bias && !is_adapted(gate, x.adapters) && !is_adapted(up, x.adapters))
      return ops::linear_swiglu(x.x, gate.weight, up.weight, x.norm, activation);
    const Linear* const both[] = {&gate, &up};
    const auto y = project(x, both);
    return ops::swiglu(y[0], y[1], activation);
  }();
  const ops::Stage stage(x.x.device(), "mlp: down, add");
  return add(residual, down, inner, x.adapters);
}

}  // namespace anabranch::nn
