#include "nn/mlp.h"

#include "ops/profile.h"

namespace anabranch::nn {

Tensor Mlp::operator()(const Normed& x, const Residual& residual) const {
  const auto inner = [&] {
    const ops::Stage stage(x.x.device(), "mlp: norm, gate, up, activation");
    if (gate && clamped) {
      const Linear* const both[] = {&*gate, &up};
      const auto y = project(x, both);
      return ops::MatmulInput(ops::clamped_glu(y[0], y[1], *clamped));
    }
    if (gate) return project_glu(x, *gate, up, activation);
    const Linear* const layers[] = {&up};
    const Tensor inner = project(x, layers)[0];
    if (xielu) return ops::MatmulInput(ops::xielu(inner, *xielu));
    return ops::MatmulInput(relu2 ? ops::relu2(inner) : ops::gelu(inner, gelu));
  }();
  const ops::Stage stage(x.x.device(), "mlp: down, add");
  return add(residual, down, inner, x.adapters);
}

}  // namespace anabranch::nn
