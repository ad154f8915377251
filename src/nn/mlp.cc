#include "nn/mlp.h"

#include "ops/profile.h"

namespace anabranch::nn {

LayerOutput Mlp::operator()(const Normed& x) const {
  const ops::Stage stage(x.x.device(), "mlp: norm, gate, up, activation");
  const auto inner = [&]() -> ops::MatmulInput {
    if (!gate.bias && !is_adapted(gate, x.adapters) && !is_adapted(up, x.adapters))
      return ops::linear_swiglu(x.x, gate.weight, up.weight, x.norm, activation);
    const Linear* const both[] = {&gate, &up};
    const auto y = project(x, both);
    return ops::swiglu(y[0], y[1], activation);
  };
  return {inner(), &down, "mlp: down, add", false, x.adapters};
}

}  // namespace anabranch::nn
