#include "nn/mlp_and_moe.h"

#include "ops/profile.h"

namespace anabranch::nn {

Tensor MlpAndMoe::operator()(const Normed& x, const Residual& residual) const {
  const Tensor dense = mlp(x, {nullptr, &post_mlp});
  const Tensor mixed = moe({x.x, &pre_moe}, {nullptr, &post_moe});
  const ops::Stage stage(x.x.device(), "experts: add");
  return add(residual, ops::add(dense, mixed));
}

}  // namespace anabranch::nn
