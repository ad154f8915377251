#include "ops/reference/low_rank.h"

#include <cmath>

#include "tensor/device.h"

namespace anabranch::ops::reference {

// Plain loops, because MLX's products sum in an order of their own. Waits for the operands.
void add_low_rank(Tensor& y, std::span<const LowRankRows> parts) {
  Tensor sums = to_host(y);
  const int out = y.shape(1);
  for (const LowRankRows& part : parts) {
    const Tensor z = to_host(part.z), up = to_host(part.up);
    const int rank = z.shape(1);
    for (int row = part.begin; row < part.begin + part.count; row++) {
      const float* from = z.data<float>() + int64_t{row} * rank;
      float* to = sums.data<float>() + int64_t{row} * out;
      for (int o = 0; o < out; o++) {
        const float* weights = up.data<float>() + int64_t{o} * rank;
        float acc = 0;
        for (int r = 0; r < rank; r++) acc = std::fma(weights[r], from[r], acc);
        to[o] = std::fma(part.scale, acc, to[o]);
      }
    }
  }
  y = y.device().to_device(sums);
}

}  // namespace anabranch::ops::reference
