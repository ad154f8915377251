#include "nn/mlp.h"

#include "ops/profile.h"

namespace anabranch::nn {

LayerOutput Mlp::operator()(const Normed& x) const {
  const ops::Stage stage(x.x.device(), "mlp: norm, gate, up, activation");
  return {project_glu(x, gate, up, activation), &down, "mlp: down, add", false, x.adapters};
}

}  // namespace anabranch::nn
