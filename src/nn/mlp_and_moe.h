#pragma once

#include "nn/mlp.h"
#include "nn/moe.h"

namespace anabranch::nn {

// A dense MLP and a mixture of experts in parallel (Gemma 4): x + post(post_mlp(mlp(x)) + post_moe(moe(x))),
// each with its own norms.
struct MlpAndMoe {
  Mlp mlp;
  Norm post_mlp;
  Norm pre_moe;
  Moe moe;
  Norm post_moe;

  // x.norm is the norm before the MLP; pre_moe normalises x.x for the experts.
  Tensor operator()(const Normed& x, const Residual& residual) const;
  template <class Visit>
  void visit_weights(const Visit& visit) const {
    mlp.visit_weights(visit);
    moe.visit_weights(visit);
  }
};

}  // namespace anabranch::nn
