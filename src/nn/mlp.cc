#include "nn/mlp.h"

#include "ops/profile.h"

namespace anabranch::nn {

LayerOutput Mlp::operator()(const Normed& x) const {
  const ops::Stage stage(x.x.device(), "mlp: norm, gate, up, activation");
  return {ops::linear_swiglu(x.x, gate, up, x.norm, activation), &down, "mlp: down, add"};
}

}  // namespace anabranch::nn
