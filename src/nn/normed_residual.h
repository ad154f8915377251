#pragma once

namespace anabranch::nn {

// Of a layer whose residual stream goes through its norms, and is multiplied by factors (MiniMax):
//   n = norm1(x);  h = mixer_input n + mixer_output mixer(n)
//   m = norm2(h);  y = mlp_input m + mlp_output mlp(m)
struct NormedResidual {
  float mixer_input = 1, mixer_output = 1, mlp_input = 1, mlp_output = 1;
};

}  // namespace anabranch::nn
