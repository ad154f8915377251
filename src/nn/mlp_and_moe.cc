#include "nn/mlp_and_moe.h"

#include "ops/profile.h"

namespace anabranch::nn {

LayerOutput MlpAndMoe::operator()(const Normed& x) const {
  const LayerOutput inner = mlp(x);
  const Tensor dense = [&] {
    const ops::Stage stage(x.x.device(), inner.stage);
    return post_mlp(apply(*inner.linear, inner.y, nullptr, inner.adapters));
  }();
  const Tensor mixed = moe({x.x, pre_moe}).y.values;
  return {ops::add(dense, post_moe(mixed)), nullptr, "experts: add"};
}

}  // namespace anabranch::nn
