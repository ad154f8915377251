#include "nn/mlp.h"

#include "ops/profile.h"

namespace anabranch::nn {

LayerOutput Mlp::operator()(const Normed& x) const {
  const ops::Stage stage(x.x.device(), "mlp: norm, gate, up, activation");
  if (gate_bias) {
    const ops::Weight* both[] = {&gate, &up};
    const auto y = ops::linear(x.x, both, &x.norm);
    return {ops::swiglu(ops::add_bias(y[0], *gate_bias), ops::add_bias(y[1], *up_bias), activation), &down,
            "mlp: down, add"};
  }
  return {ops::linear_swiglu(x.x, gate, up, x.norm, activation), &down, "mlp: down, add"};
}

}  // namespace anabranch::nn
